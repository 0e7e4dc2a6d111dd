// Artifacts: the files that a run's answers name, as they were recorded and as they are now.

import type { Schemas } from "../../api/types";
import { useLive } from "../../core/live";
import { route, setQuery } from "../../core/router";
import { Code, Copy, Empty, ErrorBox, Facts, Notice, Skeleton, State } from "../../ui/bits";
import { runParams } from "./tabs";
import type { Artifact, RunDetail } from "./models";

type Version = Artifact & { step: number };

type Content = Schemas["ArtifactContent"];

export function Artifacts({ run }: { run: RunDetail }) {
  const query = route.value.query;
  const files = filesOf(run);
  const step = Number(query.get("step")) || null;
  const path = query.get("path") ?? run.commands.find((each) => each.step === step)?.artifacts[0]?.path;
  const [first] = files.keys();
  const chosen = path !== undefined && files.has(path) ? path : first;
  if (chosen === undefined) {
    return <Empty title="No artifacts" text="No answer of this run names a file so far." />;
  }
  const versions = files.get(chosen)!;
  const version = versions.find((each) => each.step === step) ?? versions.at(-1)!;
  return (
    <div class="split">
      <ul class="split-list" aria-label="Files that this run made">
        {[...files].map(([name, made]) => (
          <li key={name}>
            <button
              type="button"
              class="split-item"
              aria-current={name === chosen ? "true" : undefined}
              onClick={() => setQuery({ path: name, step: null }, { replace: true })}
            >
              <span class="split-title">{name}</span>
              <span class="split-note">
                {made.length === 1 ? `made in step ${made[0]!.step}` : `made ${made.length} times, last in step ${made.at(-1)!.step}`}
              </span>
            </button>
          </li>
        ))}
      </ul>
      <Preview key={`${version.step} ${version.path}`} run={run} version={version} versions={versions} />
    </div>
  );
}

interface PreviewProps {
  run: RunDetail;
  version: Version;
  versions: Version[];
}

function Preview({ run, version, versions }: PreviewProps) {
  const place = { ...runParams(run), step: version.step, path: version.path };
  const { data, error } = useLive<Content>(["runs"], "/api/orchestrator/artifact", place);
  const isLatest = version === versions.at(-1);
  return (
    <section class="part split-body" aria-label={version.path}>
      <h2 class="file-name">{version.path}</h2>
      {versions.length > 1 && <Steps version={version} versions={versions} />}
      {error !== undefined && <ErrorBox error={error} />}
      {error === undefined && data === undefined && <Skeleton />}
      {data !== undefined && (
        <>
          <Facts
            items={[
              ["Now", <Standing content={data} isLatest={isLatest} />],
              [`Recorded in step ${version.step}`, <Digest sha256={version.sha256} size={version.size} />],
              ["On disk", <Digest sha256={data.sha256} size={data.size} />],
            ]}
          />
          {!isLatest && <p class="hint">Only what is on disk now can be shown, not what it was in step {version.step}.</p>}
          {data.text === null ? (
            <Notice>{data.reason ?? "There is no text to show."}</Notice>
          ) : (
            <pre class="file-text" tabIndex={0} role="region" aria-label={`Text of ${version.path}`}>{data.text}</pre>
          )}
        </>
      )}
    </section>
  );
}

function Steps({ version, versions }: { version: Version; versions: Version[] }) {
  return (
    <div class="choices" role="group" aria-label="As recorded in">
      {versions.map((each) => (
        <button
          key={each.step}
          type="button"
          class="choice"
          aria-pressed={each === version}
          onClick={() => setQuery({ path: each.path, step: String(each.step) }, { replace: true })}
        >
          step {each.step}
        </button>
      ))}
    </div>
  );
}

function Standing({ content, isLatest }: { content: Content; isLatest: boolean }) {
  if (content.is_as_recorded) return <State kind="ok" word="as recorded" />;
  if (content.size === null) return <State kind="bad" word="gone" />;
  if (content.sha256 === null) return <State kind="off" word="not compared" />;
  if (!isLatest) return <State kind="off" word="a later step changed it" />;
  return <State kind="warn" word="differs from what was recorded" />;
}

function Digest({ sha256, size }: { sha256: string | null; size: number | null }) {
  if (size === null) return <>nothing</>;
  return (
    <span class="key-text">
      {sha256 !== null && <><Code>{sha256.slice(0, 12)}…</Code><Copy text={sha256} label="SHA-256" /></>}
      <span class="hint">{size.toLocaleString("en")} bytes</span>
    </span>
  );
}

/** By path, each with its makers in order. Only what has a receipt: an answer may still be refused. */
function filesOf(run: RunDetail): Map<string, Version[]> {
  const files = new Map<string, Version[]>();
  for (const { step, artifacts } of run.commands.filter((each) => each.state === "done")) {
    for (const each of artifacts) files.set(each.path, [...(files.get(each.path) ?? []), { ...each, step }]);
  }
  return files;
}
