// The viewer of one profile in one file, without a server.

import { render } from "preact";
import "./shell/tokens.css";
import { Empty } from "./parts/states";

const app = document.getElementById("app");
if (app) render(<Empty title="No profile in this page" />, app);
