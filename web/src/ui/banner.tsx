// Banner: what a person must know about everything that is shown: it is old, it is of another version.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { config } from "../core/api";
import { duration, sentence } from "../core/format";
import { connection, dataAge, isStoreAway, refusal, retryIn, retryNow } from "../core/live";
import { Icon } from "./icons";

/** The version this page was loaded with. */
const loaded = signal<string | null>(null);

export function Banner(): JSX.Element {
  const state = connection.value;
  const isOld = state === "stale" || state === "offline";
  if (config.value && loaded.value === null) loaded.value = config.value.version;
  const isOther = config.value !== null && loaded.value !== config.value.version;
  return (
    <div role="status" class={isOld || isOther ? "banner" : "only-heard"}>
      {isOld ? <Old isSilent={state === "stale"} /> : isOther && <Other version={config.value?.version ?? ""} />}
    </div>
  );
}

function Old({ isSilent }: { isSilent: boolean }): JSX.Element {
  return (
    <>
      <Icon name="warn" />
      <p>
        <strong>{whatIsWrong(isSilent)}</strong>
        {!isSilent && refusal.value && ` ${sentence(refusal.value)}`}
        {" "}What you see may be out of date.
        {" "}<span class="countdown" aria-hidden="true">It is {duration(dataAge.value)} old; {next(retryIn.value)}</span>
      </p>
      <button type="button" onClick={retryNow}>Try now</button>
    </>
  );
}

function whatIsWrong(isSilent: boolean): string {
  if (isSilent) return isStoreAway.value ? "The server cannot reach its store." : "The server has gone quiet.";
  return refusal.value ? "The server refuses this page." : "The server does not answer.";
}

function Other({ version }: { version: string }): JSX.Element {
  return (
    <>
      <Icon name="warn" />
      <p><strong>The server is now version {version}.</strong> This page is older.</p>
      <button type="button" onClick={() => location.reload()}>Reload</button>
    </>
  );
}

function next(seconds: number | null): string {
  return seconds === null || seconds === 0 ? "asking again now." : `asking again in ${duration(seconds)}.`;
}
