// Outcome detail: the attempts, steps and result of one key, and how to reconcile an ambiguous one.

import { useState } from "preact/hooks";
import { useLive } from "../core/live";
import { route } from "../core/router";
import { ActionButton } from "../ui/action";
import { Ago, Code, Copy, ErrorBox, Facts, Json, Notice, Skeleton, State } from "../ui/bits";
import { Page } from "../ui/page";
import { Neighbours } from "./lists/neighbours";
import { Decide } from "./outcomes/decide";
import { DecisionDialog, type Decision } from "./outcomes/decision";
import { Effects } from "./outcomes/effects";
import { Forget } from "./outcomes/forget";
import { isOpen, MEANINGS, openEffects, outcomeLook, outcomeHref, type OutcomeDetail } from "./outcomes/models";
import { Sequence } from "./outcomes/sequence";

/** What the time is at which a claim in this state ends. */
const UNTIL: Record<string, string> = { running: "Claim expires", ambiguous: "Claim expired", abandoned: "Claim expired" };
const QUESTION = "What happened under this key, and what does the next caller get?";

export default function Screen() {
  const query = route.value.query;
  const place = { scope: query.get("scope") ?? "", key: query.get("key") ?? "" };
  // A decision begun for one outcome must not be sent for the next.
  return <Request key={outcomeHref(place)} scope={place.scope} name={place.key} />;
}

function Request({ scope, name }: { scope: string; name: string }) {
  const { data, error, reload } = useLive<OutcomeDetail>(["outcomes"], "/api/outcomes/show", { scope, key: name });
  const [isForgetting, setForgetting] = useState(false);
  const [decision, setDecision] = useState<Decision | null>(null);
  const actions = (
    <ActionButton
      label="Forget…"
      kind="danger"
      disabledReason={forgetReason(data)}
      onClick={() => setForgetting(true)}
    />
  );
  return (
    <Page title={name} question={QUESTION} back={{ href: "/outcomes", label: "Outcomes" }} actions={actions}>
      <Neighbours list="outcomes" here={outcomeHref({ scope, key: name })} noun="outcome" />
      {error !== undefined && <ErrorBox error={error} onRetry={reload} />}
      {error === undefined && data === undefined && <Skeleton />}
      {data !== undefined && (
        <>
          <Head found={data} />
          {(isOpen(data) || openEffects(data).length > 0) && (
            // A new form for a new state: what was found out about the last one is not true of it.
            <Decide key={data.version + openEffects(data).length} found={data} onReview={setDecision} />
          )}
          <Sequence found={data} />
          <Effects found={data} />
          <Came found={data} />
        </>
      )}
      {decision !== null && data !== undefined && (
        <DecisionDialog found={data} decision={decision} onClose={() => setDecision(null)} />
      )}
      {isForgetting && data !== undefined && <Forget found={data} onClose={() => setForgetting(false)} />}
    </Page>
  );
}

function Head({ found }: { found: OutcomeDetail }) {
  return (
    <section class="part" aria-label="Summary">
      <p class="run-headline">
        <State {...outcomeLook(found.state)} /> <span>{MEANINGS[found.state]}</span>
      </p>
      <Facts
        items={[
          ["Scope", <Code>{found.scope}</Code>],
          ["First seen", <Ago at={found.claimed_at} />],
          ["Changed", <Ago at={found.updated_at} />],
          found.until === null ? ["Kept", "until it is forgotten"] : [UNTIL[found.state] ?? "Kept until", <Ago at={found.until} />],
          ["Run by", <span class="mono breakable">{found.owner}</span>],
          ["Claimed", found.fence === 1 ? "once" : `${found.fence} times`],
          ["After a crash", found.on_crash === "rerun" ? "the next caller runs it" : "an operator reconciles it"],
          ["Body digest", found.fingerprint === null ? "–" : <Digest text={found.fingerprint} />],
        ]}
      />
    </section>
  );
}

function Came({ found }: { found: OutcomeDetail }) {
  if (found.failure !== null) {
    return (
      <section class="part" aria-label="Recorded failure">
        <h2>Recorded failure</h2>
        <Notice kind="warn"><strong>{found.failure.type}</strong>: {found.failure.message}</Notice>
        {found.failure.data != null && <Json value={found.failure.data} />}
      </section>
    );
  }
  if (!found.has_result) return null;
  return (
    <section class="part" aria-label="Recorded result">
      <h2>Recorded result</h2>
      {found.result_is_cut ? (
        <Notice>It has {found.result_size.toLocaleString("en")} bytes, too many for a page. Callers get all of them.</Notice>
      ) : (
        <Json value={found.result} label="recorded result" />
      )}
    </section>
  );
}

function Digest({ text }: { text: string }) {
  return (
    <span class="key-text">
      <Code>{text.length > 20 ? `${text.slice(0, 16)}…` : text}</Code>
      <Copy text={text} label="digest" />
    </span>
  );
}

function forgetReason(found: OutcomeDetail | undefined): string | null {
  if (found === undefined) return "it is not loaded yet";
  if (found.state === "running") return "it is running; wait until it ends";
  return null;
}
