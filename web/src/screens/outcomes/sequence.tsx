// Sequence: the attempts at one key in the order in which they happened.

import { when } from "../../core/format";
import type { OutcomeDetail } from "./models";

export function Sequence({ found }: { found: OutcomeDetail }) {
  if (found.attempts.length === 0) return null;
  return (
    <section class="part" aria-label="Events">
      <h2>Events</h2>
      <ol class="sequence">
        {found.attempts.map((each, index) => (
          <li key={index} class={`sequence-item is-${each.what.split(" ").at(-1)}`}>
            <strong>{each.what}</strong>
            {each.detail !== null && each.detail !== "" && <span class="sequence-detail">{each.detail}</span>}
            {each.at !== null && (
              <time class="sequence-time" dateTime={each.at} title={when(each.at).relative}>
                {when(each.at).absolute}
              </time>
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}
