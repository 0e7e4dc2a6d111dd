// Away: says that the server does not answer, and that no message is lost by it.

import type { JSX } from "preact";
import * as standalone from "../ui/standalone";

export function Away(): JSX.Element {
  return <standalone.Away kept="What you write is kept in this tab, and sent when it is back. Trying again by itself." />;
}
