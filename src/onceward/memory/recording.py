"""Recording: runs, commands, issues, fixes, outcomes and docs, each as one write.

Derives the name, the envelope and the relations of what happened. Secrets go first, so that none
gets into a name or a fingerprint, and so that a repeated record is the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from onceward.errors import EntityMissing, InvalidArgument
from onceward.keys.names import file_path
from onceward.keys.stable import doc_key, fix_key, fp8, run_key
from onceward.memory.arguments import Arguments
from onceward.memory.envelope import compose, head, parse
from onceward.memory.facts import FIELDS, is_moment
from onceward.memory.graph import Graph
from onceward.memory.models import NewEntity, Origin
from onceward.memory.naming import command_line, issue_name
from onceward.memory.recorded import Recorded, link, observe, record
from onceward.memory.vocabulary import TYPES, type_of
from onceward.seams import Clock, SystemClock, timestamp


class Recorder:
    """Records what happened, in the words of the policy; every record may be repeated."""

    def __init__(  # noqa: PLR0913 - one graph, and what is said with every record
        self,
        graph: Graph,
        *,
        origin: Origin,
        clock: Clock | None = None,
        mode: str = "",
        repo: str = "",
        branch: str = "",
    ) -> None:
        """Record in this graph; mode, repo and branch stand in every envelope."""
        self._graph = graph
        self._clock = clock or SystemClock()
        self._origin = origin
        self._take = Arguments(graph.redactor)
        self._mode = self._take.text("mode", mode)
        self._repo = self._take.text("repo", repo)
        self._branch = self._take.text("branch", branch)

    def run(  # noqa: PLR0913 - a run has these parts
        self,
        *,
        started_at: str,
        cmd: str,
        exit_code: int,
        summary: str,
        success: bool,
        duration_ms: float,
        cwd: str = "",
        stdout_head: str = "",
        stderr_head: str = "",
        key_events: Sequence[str | Mapping[str, object]] = (),
        tools: Sequence[str] = (),
        files: Sequence[str] = (),
        mode: str | None = None,
        ts: str | None = None,
    ) -> Recorded:
        """Record a run, who performed it, what it used and what it touched.

        `started_at` is fixed once, by whoever began the run: with it a repeated record is the same.
        """
        if not is_moment(started_at):
            message = "started_at: is not an ISO 8601 time"
            fix = "pass when the run began, such as 2026-02-06T12:00:00Z"
            raise InvalidArgument(message, fix=fix, field="started_at")
        name = run_key(started_at, self._fp8(cmd, cwd, exit_code, stdout_head, stderr_head))
        performer = self._take.text("mode", mode or self._mode)
        data = {
            "summary": self._take.text("summary", summary),
            "keyEvents": self._take.json("key_events", key_events),
            "success": success,
            "durationMs": duration_ms,
        }
        content = self._envelope("run.summary", data, ts, mode=performer)
        named = self._take.named("PERFORMED_BY", "Mode", "mode", [performer] if performer else [])
        named += self._take.named("USES", "Tool", "tools", tools)
        paths = [file_path(each, self._repo) for each in self._take.texts("files", files)]
        named += self._take.named("TOUCHES", "File", "files", paths)
        entity = NewEntity(name=name, entity_type="Run", observations=(content,))
        origin = replace(self._origin, run=self._origin.run or name)
        return record(self._graph, entity, origin, named=named)

    def command(  # noqa: PLR0913 - the execution of a command has these parts
        self,
        cmd: str,
        *,
        exit_code: int,
        cwd: str = "",
        duration_ms: float | None = None,
        stdout_head: str = "",
        stderr_head: str = "",
        run: str | None = None,
        ts: str | None = None,
    ) -> Recorded:
        """Record a command that was executed, and in which run."""
        clean = self._take.filled("cmd", cmd)
        line = command_line(clean, self._graph.redactor)
        digits = self._fp8(cmd, cwd, exit_code, stdout_head, stderr_head)
        name = f"{TYPES['Command']}#{line}#{digits}"
        data = {
            "cmd": clean,
            "cwd": self._take.text("cwd", cwd) or None,
            "exitCode": exit_code,
            "durationMs": duration_ms,
            "stdoutHead": self._take.text("stdout_head", stdout_head) or None,
            "stderrHead": self._take.text("stderr_head", stderr_head) or None,
        }
        content = self._envelope("command.exec", data, ts)
        entity = NewEntity(name=name, entity_type="Command", observations=(content,))
        within = self._take.filled("run", run) if run else None
        links = [link(within, "EXECUTES", name)] if within else []
        return record(self._graph, entity, self._from(within), links=links)

    def error(  # noqa: PLR0913 - an issue has these parts
        self,
        message: str,
        *,
        kind: str,
        detector: str,
        context: str | Mapping[str, object] | None = None,
        command: str | None = None,
        dependency: str | None = None,
        concepts: Sequence[str] = (),
        is_warning: bool = False,
        ts: str | None = None,
    ) -> Recorded:
        """Record an error or a warning, which command emitted it and what it is about."""
        clean = self._take.filled("message", message)
        name = issue_name(clean, self._graph.redactor, is_warning=is_warning)
        data = {
            "normalizedKey": name.partition("#")[2],
            "kind": self._take.text("kind", kind),
            "message": head(clean),
            "detector": self._take.text("detector", detector),
            "context": self._take.json("context", context),
        }
        content = self._envelope(f"{'warning' if is_warning else 'error'}.capture", data, ts)
        causes = [dependency] if dependency else []
        named = self._take.named("CAUSED_BY", "Dependency", "dependency", causes)
        named += self._take.named("ABOUT", "Concept", "concepts", concepts)
        links = [link(self._take.filled("command", command), "EMITS", name)] if command else []
        entity_type = "Warning" if is_warning else "Error"
        entity = NewEntity(name=name, entity_type=entity_type, observations=(content,))
        return record(self._graph, entity, self._from(), links=links, named=named)

    def fix(  # noqa: PLR0913 - a fix has these parts
        self,
        issue: str,
        *,
        strategy: str,
        changes: Sequence[str | Mapping[str, object]] = (),
        result: str = "applied",
        docs: Sequence[str] = (),
        attempt: int | None = None,
        ts: str | None = None,
    ) -> Recorded:
        """Record a fix of an issue that was recorded: its name, or its message as it was seen.

        Documents are URLs; those that are not known yet are noted, too. When the issue came back
        and the fix is applied again, `attempt` tells that from the same record repeated.
        """
        target = self._issue(self._take.filled("issue", issue))
        data = {
            "strategy": self._take.text("strategy", strategy),
            "changes": self._take.json("changes", changes),
            "result": self._take.text("result", result),
            "attempt": None if attempt == 1 else attempt,
        }
        content = self._envelope("fix.apply", data, ts)
        name = fix_key(target, strategy=data["strategy"], changes=data["changes"])
        links = [link(name, "RESOLVES" if type_of(target) == "Error" else "MITIGATES", target)]
        sources = self._take.texts("docs", docs)
        links += [link(name, "DERIVED_FROM", each) for each in sources if type_of(each) == "Doc"]
        urls = [each for each in sources if type_of(each) != "Doc"]
        named = [("DERIVED_FROM", self._noted(url, ts)) for url in urls]
        entity = NewEntity(name=name, entity_type="Fix", observations=(content,))
        return record(self._graph, entity, self._from(), links=links, named=named)

    def outcome(  # noqa: PLR0913 - the outcome of a fix has these parts
        self,
        fix: str,
        *,
        status: str,
        verification_method: str,
        duration_to_verify: float,
        side_effects: Sequence[str | Mapping[str, object]] = (),
        ts: str | None = None,
    ) -> Recorded:
        """Record how a fix turned out, on the fix itself, which must be there."""
        name = self._take.filled("fix", fix)
        if type_of(name) != "Fix":
            message = f"fix: {name[:80]!r} is not the name of a fix"
            raise InvalidArgument(message, fix="pass the name that record_fix gave", field="fix")
        data = {
            "fixId": name,
            "status": self._take.text("status", status),
            "verificationMethod": self._take.text("verification_method", verification_method),
            "durationToVerify": duration_to_verify,
            "sideEffects": self._take.json("side_effects", side_effects),
        }
        return observe(self._graph, name, self._envelope("fix.outcome", data, ts), self._from())

    def doc(  # noqa: PLR0913 - a document has these parts
        self,
        url: str,
        *,
        title: str | None = None,
        site: str | None = None,
        author: str | None = None,
        published_at: str | None = None,
        accessed_at: str | None = None,
        archive_url: str | None = None,
        excerpt: str | None = None,
        concepts: Sequence[str] = (),
        ts: str | None = None,
    ) -> Recorded:
        """Record a document by its URL, and what it is about.

        Unless told otherwise it was accessed when it was first noted like this.
        """
        told = {
            "title": title,
            "site": site,
            "author": author,
            "published_at": published_at,
            "accessed_at": accessed_at,
            "archive_url": archive_url,
            "excerpt": excerpt,
        }
        said = {name: self._take.text(name, text) for name, text in told.items() if text}
        entity = self._noted(self._take.filled("url", url), ts, said)
        named = self._take.named("REFERENCES", "Concept", "concepts", concepts)
        return record(self._graph, entity, self._from(), named=named)

    # --- what they share -------------------------------------------------------------------------

    def _from(self, run: str | None = None) -> Origin:
        """Return who writes, and in which run; one that nobody recorded would be taken for true."""
        if run is None or self._origin.run or type_of(run) != "Run":
            return self._origin
        return replace(self._origin, run=run) if self._graph.open([run]).entities else self._origin

    def _envelope(
        self, kind: str, data: Mapping[str, object], ts: str | None, *, mode: str | None = None
    ) -> str:
        return compose(
            kind,
            ts=ts or timestamp(self._clock.now()),
            mode=self._mode if mode is None else mode,
            repo=self._repo,
            branch=self._branch,
            data=data,
        )

    def _fp8(self, cmd: str, cwd: str, exit_code: int, stdout: str, stderr: str) -> str:
        return fp8(
            cmd=self._take.filled("cmd", cmd),
            cwd=self._take.text("cwd", cwd),
            exit_code=exit_code,
            stdout=head(self._take.text("stdout_head", stdout)),
            stderr=head(self._take.text("stderr_head", stderr)),
        )

    def _issue(self, issue: str) -> str:
        """Return the name of a recorded error or warning; raise EntityMissing."""
        redactor = self._graph.redactor
        wanted = [issue] if type_of(issue) in ("Error", "Warning") else []
        wanted += [issue_name(issue, redactor, is_warning=each) for each in (False, True)]
        known = {entity.name for entity in self._graph.open(wanted).entities}
        found = next((name for name in wanted if name in known), None)
        if found is None:
            raise EntityMissing(wanted, field="issue", fix="record the error first")
        return found

    def _noted(self, url: str, ts: str | None, said: Mapping[str, str] | None = None) -> NewEntity:
        """Return a document with a note; without one, if nothing is said and one is there.

        Who does not say when it was accessed means the day it was first noted like this, so that
        the same note at another time is the same note.
        """
        name = doc_key(url)
        contents = (o.content for e in self._graph.open([name]).entities for o in e.observations)
        notes = [found.data for found in map(parse, contents) if found]
        if said is None and notes:
            return NewEntity(name=name, entity_type="Doc")
        data: dict[str, object] = {"url": url, **(said or {})}
        if "accessed_at" not in data:
            # Whoever wrote a note by hand may have left that out, or have written anything.
            same = (note.get("accessed_at") for note in notes if _timeless(note) == data)
            is_date = FIELDS["doc.note"]["accessed_at"].is_met
            # A day, not a moment: two that note the same at once must note the same.
            day = (ts or timestamp(self._clock.now())).partition("T")[0]
            data["accessed_at"] = next(filter(is_date, same), day)
        content = self._envelope("doc.note", data, ts)
        return NewEntity(name=name, entity_type="Doc", observations=(content,))


def _timeless(note: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in note.items() if name != "accessed_at"}
