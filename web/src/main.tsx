import { render } from "preact";
import "./shell/tokens.css";
import { Shell } from "./shell/shell";

const app = document.getElementById("app");
if (app) render(<Shell />, app);
