// A logger that nobody hears.

import type { Logger } from "../../src/index.js";

const quiet = (): void => undefined;
export const silentLogger: Logger = { debug: quiet, info: quiet, warn: quiet, error: quiet, child: () => silentLogger };
