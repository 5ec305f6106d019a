"""The dependency graph: parents and children.

Invariant: an edge is stored at both ends (the child's `parents`, the parent's `children`) or, while the parent
is not known, in the child's `parents` and in `expected`. Each edge is removed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.errors import CYCLE, HALL_FULL, Refusal
from hiringhall.core.jobs import Job
from hiringhall.core.parent_lookups import ParentLookups
from hiringhall.core.rules.spacing import DEBOUNCED

if TYPE_CHECKING:
    from hiringhall.core.jobs import ParentRef


def name_of(job: Job) -> ParentRef:
    """The reference that a child waits for after this job ended without success. The key of a debounced job may
    mean a later one.
    """
    named = job.named and (job.extras is None or DEBOUNCED not in job.extras)
    return (job.queue.name, job.key) if named else job.id


def known_jobs(parents: list[Job | ParentRef]) -> list[Job]:
    """The parents that are jobs and not only names."""
    return [parent for parent in parents if isinstance(parent, Job)]


class Plan:
    """Edges to add together: all of them, or none."""

    __slots__ = ("_children", "_counts", "edges")

    def __init__(self) -> None:
        self.edges: list[tuple[Job, list[Job | ParentRef]]] = []
        """Each job with its further parents."""
        self._children: dict[int, list[Job]] = {}
        """The same edges by the id of the parent, where it is known."""
        self._counts: dict[int, int] = {}
        """The number of further parents by job id."""

    def add(self, child: Job, parents: list[Job | ParentRef]) -> None:
        """Plan further parents for a job."""
        self.edges.append((child, parents))
        self._counts[child.id] = self.count(child) + len(parents)
        for parent in parents:
            if isinstance(parent, Job):
                self._children.setdefault(parent.id, []).append(child)

    def count(self, child: Job) -> int:
        """The number of further parents of a job."""
        return self._counts.get(child.id, 0)

    def children(self, parent: Job) -> list[Job]:
        """The jobs that will wait for this one, in addition to those that do."""
        return self._children.get(parent.id, [])


class Graph:
    """The edges between live jobs, and to parents that were not submitted yet."""

    __slots__ = ("expected", "parent_lookups")

    def __init__(self) -> None:
        self.expected: dict[ParentRef, dict[int, Job]] = {}
        """Children by the reference of a parent that is not known."""
        self.parent_lookups = ParentLookups()
        """The references in `expected` that the history is asked for."""

    def link(self, child: Job, parent: Job) -> None:
        """`child` waits for `parent`."""
        if child.parents is None:
            child.parents = {}
        elif child.parents.get(parent.id, parent) is None:
            # It waited for the same parent by id too: that is one edge.
            self._unexpect(child, parent.id)
        child.parents[parent.id] = parent
        if parent.children is None:
            parent.children = {}
        parent.children[child.id] = child

    def expect(self, child: Job, ref: ParentRef) -> None:
        """`child` waits for a job that is not known yet."""
        if child.parents is None:
            child.parents = {}
        child.parents[ref] = None
        self.expected.setdefault(ref, {})[child.id] = child

    def adopt(self, parent: Job) -> None:
        """A job has come: jobs that waited for its id or its name get an edge to it."""
        if not self.expected:
            return
        refs: list[ParentRef] = [parent.id]
        if parent.key:
            refs.append((parent.queue.name, parent.key))
        for ref in refs:
            self.adopt_as(ref, parent)

    def adopt_as(self, ref: ParentRef, parent: Job) -> None:
        """Link the jobs that wait for `ref` to their parent, which has come."""
        children = self.expected.pop(ref, None)
        if children is None:
            return
        self.parent_lookups.drop(ref)
        for child in children.values():
            assert child.parents is not None
            del child.parents[ref]
            self.link(child, parent)

    def unlink(self, child: Job, parent: Job) -> bool:
        """Remove one edge; True if it was the child's last."""
        assert child.parents is not None
        assert parent.children is not None
        del child.parents[parent.id]
        del parent.children[child.id]
        if not parent.children:
            parent.children = None
        if child.parents:
            return False
        child.parents = None
        return True

    def detach(self, child: Job) -> None:
        """Remove all edges to the parents of a child that ends without having run."""
        if child.parents is None:
            return
        for ref, parent in list(child.parents.items()):
            if parent is not None:
                self.unlink(child, parent)
                continue
            self._unexpect(child, ref)
        child.parents = None

    def give_up(self, child: Job, ref: ParentRef) -> bool:
        """`child` no longer waits for an unknown job; True if that was its last parent."""
        assert child.parents is not None
        del child.parents[ref]
        self._unexpect(child, ref)
        if child.parents:
            return False
        child.parents = None
        return True

    def _unexpect(self, child: Job, ref: ParentRef) -> None:
        waiting = self.expected[ref]
        del waiting[child.id]
        if not waiting:
            del self.expected[ref]
            self.parent_lookups.drop(ref)

    def forget(self, parent: Job) -> None:
        """The parent failed or was withdrawn: its children wait for its name instead."""
        if parent.children is None:
            return
        for child in list(parent.children.values()):
            self.wait_for_name(child, parent)

    def wait_for_name(self, child: Job, parent: Job) -> None:
        """Another job may come under the parent's name, or the parent may be retried."""
        self.unlink(child, parent)
        self.expect(child, name_of(parent))

    def refuse_cycle(
        self, waiting: dict[int, Job] | None, parents: list[Job], walk_max: int, plan: Plan | None = None
    ) -> None:
        """Refuse `parents` of a job that has the children `waiting`, if one of them is a descendant of the job,
        now or by the plan.

        Only a job with children can close a cycle, so most submits do not walk the graph.
        """
        if not waiting:
            return
        # A parent that waits for nothing is nobody's descendant.
        wanted = {
            parent.id
            for parent in parents
            if parent.parents is not None
            or parent.id in waiting
            or (plan is not None and plan.count(parent) > 0)
        }
        if not wanted:
            return
        seen: dict[int, Job] = dict(waiting)
        stack = list(waiting.values())
        while stack:
            job = stack.pop()
            if job.id in wanted:
                raise Refusal(CYCLE, "one of the job's parents waits for this very job; leave that parent out")
            if len(seen) > walk_max:
                text = f"more than {walk_max} jobs depend on this one (graph_walk_max)"
                raise Refusal(HALL_FULL, text)
            children = list(job.children.values()) if job.children is not None else []
            if plan is not None:
                children += plan.children(job)
            for child in children:
                if child.id not in seen:
                    seen[child.id] = child
                    stack.append(child)
