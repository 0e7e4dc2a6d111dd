// Rail: the states of a list, one of them chosen, kept in the address.

import { route, setQuery } from "../../core/router";
import { count, exact } from "../../core/format";

export interface Choice {
  /** What stands in the address; null is the choice that needs no word there. */
  value: string | null;
  title: string;
  /** How many there are, if known. */
  count?: number | null;
  hint?: string;
}

interface RailProps {
  label: string;
  param: string;
  choices: Choice[];
}

/** A filter that came with the address, and the way to be rid of it. */
export function Chip({ param }: { param: string }) {
  const value = route.value.query.get(param);
  if (value === null) return null;
  return (
    <button type="button" class="choice" aria-pressed="true" title="Take this filter away" onClick={() => setQuery({ [param]: null })}>
      {param}: {value} <span aria-hidden="true">×</span>
    </button>
  );
}

export function Rail({ label, param, choices }: RailProps) {
  const chosen = route.value.query.get(param);
  return (
    <div class="choices" role="group" aria-label={label}>
      {choices.map((each) => (
        <button
          key={each.title}
          type="button"
          class="choice"
          aria-pressed={each.value === chosen}
          title={each.hint}
          onClick={() => setQuery({ [param]: each.value })}
        >
          {each.title}{" "}
          {each.count != null && each.count > 0 && (
            <span class="choice-count" title={exact(each.count)}>{count(each.count)}</span>
          )}
        </button>
      ))}
    </div>
  );
}
