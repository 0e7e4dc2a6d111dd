// Missing: an address that leads nowhere, and where to go from there.

import type { JSX } from "preact";
import { Link, route } from "../core/router";
import { rail } from "../screens";
import { Page } from "./page";

export function Missing(): JSX.Element {
  return (
    <Page title="There is no such page" question={`Nothing is at ${route.value.path}.`}>
      <ul class="row">
        {rail.flatMap((group) => group.items).map((item) => (
          <li key={item.href}><Link class="button" href={item.href}>{item.title}</Link></li>
        ))}
      </ul>
    </Page>
  );
}
