// Api: the Lab's server and its addresses. Knows no page; submissions that must arrive exactly once are
// submission.js's.

import { Server } from "./calling.js";

export { peek, Refused, Unreachable } from "./calling.js";

const server = new Server("/api/config");

export const loadConfig = () => server.loadConfig();
export const get = (path) => server.get(path);
export const post = (path, body, requestId = null) => server.post(path, body, requestId);
/** Return a text file of a run. */
export const getText = (path) => server.getText(path);

export function runPath(runId) {
  return `/api/runs/${encodeURIComponent(runId)}`;
}

export function artifactPath(runId, name) {
  return `${runPath(runId)}/artifact/${name.split("/").map(encodeURIComponent).join("/")}`;
}

export function experimentPath(experimentId) {
  return `/api/experiments/${encodeURIComponent(experimentId)}`;
}
