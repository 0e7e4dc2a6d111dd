// Rules: when an alert is raised and when it is taken back, as this server has them.

import { Code, Empty } from "../../ui/bits";
import { ruleText, type Rule } from "./models";

export function Rules({ rules }: { rules: Rule[] }) {
  if (rules.length === 0) {
    return <Empty title="No rules" text="This server raises no alerts: its configuration says so." />;
  }
  return (
    <>
      <ul class="rules">
        {rules.map((each) => (
          <li key={each.name}>
            <h2>{each.name}</h2>
            <p>{ruleText(each)}</p>
            {each.has_webhook && <p class="hint">Also sent to a webhook.</p>}
          </li>
        ))}
      </ul>
      <p class="hint">Rules stand as <Code>[[alerts]]</Code> in <Code>onceward.toml</Code>, which is read when the server starts.</p>
    </>
  );
}
