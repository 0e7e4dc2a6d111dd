// Memory: what the agents know: search on the left, the neighbourhood of the selection in the middle, the
// selection itself on the right. All of it is in the address.

import { route } from "../core/router";
import { Page } from "../ui/page";
import { Card } from "./memory/card";
import { Finder } from "./memory/finder";
import { Neighbours } from "./memory/neighbours";

export default function Screen() {
  const name = route.value.query.get("name");
  return (
    <Page title="Memory" question="What do the agents know, from whom, and since when?">
      <div class={name ? "memory has-selection" : "memory"}>
        <Finder />
        {name !== null && <Neighbours key="neighbours" name={name} />}
        {name !== null && <Card key={name} name={name} />}
      </div>
    </Page>
  );
}
