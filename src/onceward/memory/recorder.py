"""Recorder: record runs, commands, issues, fixes, outcomes and docs, one write each.

Derives the name, the envelope and the relations of a record. Secrets are redacted first, so names
and fingerprints never contain them and repeated records are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from onceward.errors import EntityMissing
from onceward.errors.arguments import reject_field
from onceward.keys.names import file_path
from onceward.keys.stable import doc_key, fix_key, fp8, run_key
from onceward.memory.entity_names import (
    TYPES,
    command_line,
    is_timestamp,
    issue_name,
    relation_problem,
    type_of,
)
from onceward.memory.envelope import FIELDS, compose, head, parse
from onceward.memory.graph import Graph
from onceward.memory.input_parsing import RecordArguments, RelatedEntity
from onceward.memory.models import (
    EntityResult,
    Link,
    NewEntity,
    NewObservations,
    RelationResult,
    WriteBatch,
    WriteOrigin,
    WriteStatus,
)
from onceward.system import Clock, SystemClock, timestamp


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """The effect of a record on its entity, observation and relations."""

    name: str
    #: The stored type; an existing entity keeps its own.
    entity_type: str
    entity: WriteStatus
    observation: WriteStatus
    #: Rejected relations have a reason; the others are stored.
    relations: tuple[RelationResult, ...] = ()
    #: Other entities that were created, such as the tools of a run.
    related: tuple[EntityResult, ...] = ()


class Recorder:
    """Records events in the vocabulary of the policy; every record is idempotent."""

    def __init__(  # noqa: PLR0913 - one graph, and the defaults of every record
        self,
        graph: Graph,
        *,
        origin: WriteOrigin,
        clock: Clock | None = None,
        mode: str = "",
        repo: str = "",
        branch: str = "",
    ) -> None:
        """Record in this graph; mode, repo and branch are part of every envelope."""
        self._graph = graph
        self._clock = clock or SystemClock()
        self._origin = origin
        self._arguments = RecordArguments(graph.redactor)
        self._mode = self._arguments.text("mode", mode)
        self._repo = self._arguments.text("repo", repo)
        self._branch = self._arguments.text("branch", branch)

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
        """Record a run: who performed it, which tools it used, which files it touched.

        `started_at` is part of the run's name: pass the same value when you repeat the call.
        """
        if not is_timestamp(started_at):
            problem = f"{started_at!r:.60} is not an ISO 8601 date with a time"
            fix = "pass when the run began, such as 2026-02-06T12:00:00Z"
            reject_field("started_at", problem, fix)
        name = run_key(started_at, self._fp8(cmd, cwd, exit_code, stdout_head, stderr_head))
        performer = self._arguments.text("mode", mode or self._mode)
        data = {
            "summary": self._arguments.text("summary", summary),
            "keyEvents": self._arguments.json("key_events", key_events),
            "success": success,
            "durationMs": duration_ms,
        }
        content = self._envelope("run.summary", data, ts, mode=performer)
        named = self._arguments.related_entities(
            "PERFORMED_BY", "Mode", "mode", [performer] if performer else []
        )
        named += self._arguments.related_entities("USES", "Tool", "tools", tools)
        paths = [file_path(each, self._repo) for each in self._arguments.text_list("files", files)]
        named += self._arguments.related_entities("TOUCHES", "File", "files", paths)
        entity = NewEntity(name=name, entity_type="Run", observations=(content,))
        origin = replace(self._origin, run=self._origin.run or name)
        return self._record(entity, origin, named=named)

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
        """Record an executed command and the run it belongs to."""
        clean = self._arguments.non_empty_text("cmd", cmd)
        line = command_line(clean, self._graph.redactor)
        digits = self._fp8(cmd, cwd, exit_code, stdout_head, stderr_head)
        name = f"{TYPES['Command']}#{line}#{digits}"
        data = {
            "cmd": clean,
            "cwd": self._arguments.text("cwd", cwd) or None,
            "exitCode": exit_code,
            "durationMs": duration_ms,
            "stdoutHead": self._arguments.text("stdout_head", stdout_head) or None,
            "stderrHead": self._arguments.text("stderr_head", stderr_head) or None,
        }
        content = self._envelope("command.exec", data, ts)
        entity = NewEntity(name=name, entity_type="Command", observations=(content,))
        within = self._arguments.non_empty_text("run", run) if run else None
        links = [_link(within, "EXECUTES", name)] if within else []
        return self._record(entity, self._origin_for(within), links=links)

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
        """Record an error or a warning, the command that emitted it and its subject."""
        clean = self._arguments.non_empty_text("message", message)
        name = issue_name(clean, self._graph.redactor, is_warning=is_warning)
        data = {
            "normalizedKey": name.partition("#")[2],
            "kind": self._arguments.text("kind", kind),
            "message": head(clean),
            "detector": self._arguments.text("detector", detector),
            "context": self._arguments.json("context", context),
        }
        content = self._envelope(f"{'warning' if is_warning else 'error'}.capture", data, ts)
        causes = [dependency] if dependency else []
        named = self._arguments.related_entities("CAUSED_BY", "Dependency", "dependency", causes)
        named += self._arguments.related_entities("ABOUT", "Concept", "concepts", concepts)
        emitter = self._arguments.non_empty_text("command", command) if command else None
        links = [_link(emitter, "EMITS", name)] if emitter else []
        entity_type = "Warning" if is_warning else "Error"
        entity = NewEntity(name=name, entity_type=entity_type, observations=(content,))
        return self._record(entity, self._origin, links=links, named=named)

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
        """Record a fix of a recorded issue, given by its name or its message.

        Documents are URLs; unknown ones are recorded too. `attempt` distinguishes a fix that was
        applied again from a repeated record of the same attempt.
        """
        target = self._issue(self._arguments.non_empty_text("issue", issue))
        data = {
            "strategy": self._arguments.text("strategy", strategy),
            "changes": self._arguments.json("changes", changes),
            "result": self._arguments.text("result", result),
            "attempt": None if attempt == 1 else attempt,
        }
        content = self._envelope("fix.apply", data, ts)
        name = fix_key(target, strategy=data["strategy"], changes=data["changes"])
        links = [_link(name, "RESOLVES" if type_of(target) == "Error" else "MITIGATES", target)]
        sources = self._arguments.text_list("docs", docs)
        links += [_link(name, "DERIVED_FROM", each) for each in sources if type_of(each) == "Doc"]
        urls = [each for each in sources if type_of(each) != "Doc"]
        named = [("DERIVED_FROM", self._doc_entity(url, ts)) for url in urls]
        entity = NewEntity(name=name, entity_type="Fix", observations=(content,))
        return self._record(entity, self._origin, links=links, named=named)

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
        """Record the outcome of a fix, as an observation of the fix, which must exist."""
        name = self._arguments.non_empty_text("fix", fix)
        if type_of(name) != "Fix":
            problem = f"{name[:80]!r} is not the name of a fix"
            reject_field("fix", problem, "pass the name that record_fix returned")
        data = {
            "fixId": name,
            "status": self._arguments.text("status", status),
            "verificationMethod": self._arguments.text("verification_method", verification_method),
            "durationToVerify": duration_to_verify,
            "sideEffects": self._arguments.json("side_effects", side_effects),
        }
        content = self._envelope("fix.outcome", data, ts)
        observed = NewObservations(entity_name=name, contents=(content,))
        [fact] = self._graph.write(WriteBatch(observations=(observed,)), self._origin).observations
        return Recorded(
            name=fact.entity_name,
            entity_type="Fix",
            entity=WriteStatus.KNOWN,
            observation=fact.status,
        )

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
        """Record a document by its URL, and the concepts it references.

        `accessed_at` defaults to the day on which this note was first recorded.
        """
        arguments = {
            "title": title,
            "site": site,
            "author": author,
            "published_at": published_at,
            "accessed_at": accessed_at,
            "archive_url": archive_url,
            "excerpt": excerpt,
        }
        given = {name: self._arguments.text(name, text) for name, text in arguments.items() if text}
        entity = self._doc_entity(self._arguments.non_empty_text("url", url), ts, given)
        named = self._arguments.related_entities("REFERENCES", "Concept", "concepts", concepts)
        return self._record(entity, self._origin, named=named)

    # --- writing ---------------------------------------------------------------------------------

    def _record(
        self,
        entity: NewEntity,
        origin: WriteOrigin,
        *,
        links: Sequence[Link] = (),
        named: Sequence[RelatedEntity] = (),
    ) -> Recorded:
        """Write an entity with one observation, its related entities and its relations.

        Relations outside the vocabulary are rejected whatever the graph's validation mode is.
        """
        asked = [*links, *(_link(entity.name, relation, other.name) for relation, other in named)]
        refused = [refusal for each in dict.fromkeys(asked) if (refusal := _refusal(each))]
        impossible = {each.link for each in refused}
        possible = tuple(each for each in asked if each not in impossible)
        # Entities without a valid relation are not created.
        ends = {each.to_name for each in possible}
        others = (other for _, other in named if other.name in ends)
        batch = WriteBatch(entities=(entity, *others), relations=possible, is_best_effort=True)
        written = self._graph.write(batch, origin)
        own, *rest = written.entities
        return Recorded(
            name=own.name,
            entity_type=own.entity_type,
            entity=own.status,
            observation=written.observations[0].status,
            relations=(*written.relations, *refused),
            related=tuple(each for each in rest if each.status is not WriteStatus.KNOWN),
        )

    def _origin_for(self, run: str | None) -> WriteOrigin:
        """Return the origin of a write; a run that is not recorded is left out."""
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
            cmd=self._arguments.non_empty_text("cmd", cmd),
            cwd=self._arguments.text("cwd", cwd),
            exit_code=exit_code,
            stdout=head(self._arguments.text("stdout_head", stdout)),
            stderr=head(self._arguments.text("stderr_head", stderr)),
        )

    def _issue(self, issue: str) -> str:
        """Return the name of a recorded error or warning; raise EntityMissing."""
        redactor = self._graph.redactor
        wanted = [issue] if type_of(issue) in ("Error", "Warning") else []
        wanted += [issue_name(issue, redactor, is_warning=each) for each in (False, True)]
        known = {entity.name for entity in self._graph.open(wanted).entities}
        found = next((name for name in wanted if name in known), None)
        if found is None:
            raise EntityMissing(
                wanted,
                field="issue",
                fix="record it first: `onceward memory capture -- COMMAND`, or record_error",
            )
        return found

    def _doc_entity(
        self, url: str, ts: str | None, given: Mapping[str, str] | None = None
    ) -> NewEntity:
        """Return a document with a note; without one if none is given and one exists.

        `accessed_at` defaults to the day of the first equal note, so a repeated note is the same
        note.
        """
        name = doc_key(url)
        contents = (o.content for e in self._graph.open([name]).entities for o in e.observations)
        notes = [found.data for found in map(parse, contents) if found]
        if given is None and notes:
            return NewEntity(name=name, entity_type="Doc")
        data: dict[str, object] = {"url": url, **(given or {})}
        if "accessed_at" not in data:
            # A note written without the recorder may lack the field or have an invalid value.
            same = (note.get("accessed_at") for note in notes if _timeless(note) == data)
            is_date = FIELDS["doc.note"]["accessed_at"].accepts
            # A day, not a time: concurrent equal notes must be the same note.
            day = (ts or timestamp(self._clock.now())).partition("T")[0]
            data["accessed_at"] = next(filter(is_date, same), day)
        content = self._envelope("doc.note", data, ts)
        return NewEntity(name=name, entity_type="Doc", observations=(content,))


def _link(from_name: str, relation_type: str, to_name: str) -> Link:
    return Link(from_name=from_name, to_name=to_name, relation_type=relation_type)


def _refusal(asked: Link) -> RelationResult | None:
    """Return the result of a relation that the vocabulary does not allow; else None."""
    problem = relation_problem(asked.from_name, asked.relation_type, asked.to_name)
    if problem is None:
        return None
    _, message, fix = problem
    return RelationResult(link=asked, status=WriteStatus.REFUSED, reason=f"{message}; {fix}")


def _timeless(note: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in note.items() if name != "accessed_at"}
