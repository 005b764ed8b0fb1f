import DefaultTheme from "vitepress/theme";
import "./pagoda.css";

export default DefaultTheme;
