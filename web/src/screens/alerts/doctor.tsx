// Doctor: whether this machine and this store are fit to keep promises, and what to do where not.

import type { Schemas } from "../../api/types";
import { useLive } from "../../core/live";
import { route, setQuery } from "../../core/router";
import { Ago, Copy, ErrorBox, Skeleton, State } from "../../ui/bits";
import { checkLook, type Check } from "./models";

type Found = Schemas["Diagnosis"];

/** A note says what is so, and wants nothing. */
const isFine = ({ status }: Check) => status === "ok" || status === "note";

export function Doctor() {
  const isDeep = route.value.query.get("deep") === "1";
  const { data, error, isLoading, reload } = useLive<Found>([], "/api/console/doctor", { deep: isDeep ? 1 : null });
  if (error !== undefined && data === undefined) return <ErrorBox error={error} onRetry={reload} />;
  if (data === undefined) return <Skeleton />;
  const bad = data.checks.filter((each) => !isFine(each));
  return (
    <div class="part">
      <p class="run-headline">
        {bad.length === 0 ? (
          <><State kind="ok" word="fit" /> <span>The machine and the store pass all checks.</span></>
        ) : (
          <>
            <State kind={data.ok ? "warn" : "bad"} word={data.ok ? "warnings" : "not fit"} />{" "}
            <span>{bad.length === 1 ? "One thing wants" : `${bad.length} things want`} a look.</span>
          </>
        )}
      </p>
      <div class="section-head">
        <span class="hint">Checked <Ago at={data.as_of} />.</span>
        <button type="button" onClick={reload} aria-busy={isLoading || undefined}>Check again</button>
        <label class="check">
          <input
            type="checkbox"
            checked={isDeep}
            onChange={(event) => setQuery({ deep: event.currentTarget.checked ? "1" : null }, { replace: true })}
          />
          Run the full integrity check
        </label>
      </div>
      <ul class="checks">
        {[...bad, ...data.checks.filter((each) => isFine(each))].map((each) => (
          <li key={`${each.name} ${each.detail}`} class="check-item">
            <State {...checkLook(each.status)} />
            <strong>{each.name}</strong>
            <span class="breakable">{each.detail}</span>
            {each.fix !== "" && <p class="check-fix">Fix: <span>{each.fix}</span> <Copy text={each.fix} label={`fix of ${each.name}`} /></p>}
          </li>
        ))}
      </ul>
    </div>
  );
}
