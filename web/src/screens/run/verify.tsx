// Verify: a look at all files of a run, on demand, and what it found.

import { useState } from "preact/hooks";
import type { Schemas } from "../../api/types";
import { ApiError, get } from "../../core/api";
import { ErrorBox, Notice } from "../../ui/bits";
import { runParams } from "./tabs";
import type { RunDetail } from "./models";

type Verification = Schemas["VerificationResult"];

export function useVerify(run: RunDetail | undefined) {
  const [found, setFound] = useState<Verification | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const look = async () => {
    if (run === undefined || isBusy) return;
    setBusy(true);
    setError(null);
    try {
      setFound(await get<Verification>("/api/orchestrator/verify", runParams(run)));
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  return { found, error, isBusy, look };
}

export function Verified({ found, error }: { found: Verification | null; error: ApiError | null }) {
  if (error !== null) return <ErrorBox error={error} />;
  if (found === null) return null;
  const counts = `${found.records} records, ${found.receipts} receipts, ${found.artifacts} artifacts`;
  if (found.ok) return <Notice kind="ok">{counts}: all as recorded.</Notice>;
  return (
    <Notice kind="bad">
      <p>{counts}: not all as recorded.</p>
      <ul>
        {found.findings.map((each) => (
          <li key={`${each.path} ${each.problem}`}><code>{each.path}</code>: {each.problem}</li>
        ))}
      </ul>
    </Notice>
  );
}
