// Dead letters: the dead-letter queue of workers and conversations.

import { Page } from "../ui/page";
import { Letters } from "./dead/letters";

export default function Screen() {
  return (
    <Page title="Dead letters" question="Which messages failed for good, and should they be tried again?">
      <Letters />
    </Page>
  );
}
