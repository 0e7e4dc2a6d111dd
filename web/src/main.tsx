// Main: starts what runs for the whole life of the page, and draws the frame.

import { render } from "preact";
import { loadConfig } from "./core/api";
import { startClock } from "./core/clock";
import { startKeys } from "./core/keys";
import { startRouter } from "./core/router";
import { startStream } from "./core/stream";
import { startTheme } from "./core/theme";
import { Frame } from "./ui/frame";

startTheme();
startClock();
startRouter();
startKeys();
startStream();
// Without it the frame says so: it asks again as soon as the server is back.
loadConfig().catch(() => undefined);

const root = document.getElementById("app");
if (root) render(<Frame />, root);
