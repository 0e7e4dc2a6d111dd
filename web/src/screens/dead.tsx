// Dead letters: what was given up, of cursors and of conversations, and the way back for it.

import { useLive } from "../core/live";
import { Tabs, useTab } from "../ui/bits";
import { Page } from "../ui/page";
import { Letters } from "./dead/letters";
import { UndeliveredTab } from "./dead/undelivered";

export default function Screen() {
  const tab = useTab("tab", "cursors");
  const counts = useLive<Record<string, number | null>>(["dead", "dispatch"], "/api/console/counts").data;
  const tabs = [
    { id: "cursors", title: "Cursors", count: counts?.dead },
    { id: "conversations", title: "Conversations", count: counts?.conversations_dead },
  ];
  return (
    <Page title="Dead letters" question="What was given up, and should it be tried again?">
      <Tabs label="Whose dead letters" tabs={tabs} />
      {tab === "conversations" ? <UndeliveredTab /> : <Letters />}
    </Page>
  );
}
