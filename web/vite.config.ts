import { defineConfig } from "vite";

// `npx vite web` serves the page with hot reload, against a server that runs on its default port.
const server = process.env.PAGODA_URL ?? "http://127.0.0.1:8000";
const routes = ["/api", "/v1"];

export default defineConfig({
  // Modern browsers only: light-dark() and oklch() stay as written.
  build: { target: "esnext", cssTarget: "esnext", modulePreload: { polyfill: false }, reportCompressedSize: false },
  server: { proxy: Object.fromEntries(routes.map((route) => [route, server])) },
});
