// Conversations: groups of people and the agent that answers them: where each stands, and one of them closely.

import { config } from "../core/api";
import { route } from "../core/router";
import { Empty } from "../ui/bits";
import { Page } from "../ui/page";
import { GroupView } from "./conversations/group";
import { Groups } from "./conversations/groups";

const QUESTION = "What do people write to agents, how far was each conversation processed, and was everything answered once?";

export default function Screen() {
  const group = route.value.query.get("group");
  if (config.value && !config.value.has_conversations) return <NoConversations />;
  if (group !== null) return <GroupView key={group} name={group} />;
  return (
    <Page title="Conversations" question={QUESTION}>
      <Groups />
    </Page>
  );
}

function NoConversations() {
  return (
    <Page title="Conversations" question={QUESTION}>
      <Empty
        title="This server runs without conversations"
        text="Conversations hand messages to agents, none lost and none answered twice. Start the server with them, or serve them alone."
        commands={["onceward up", "onceward dispatch serve"]}
      />
    </Page>
  );
}
