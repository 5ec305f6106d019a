"""The graph: its layout, what blocks the rest, and 5,000 jobs without stutter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import expect

if TYPE_CHECKING:
    import httpx
    from screen import Screen

GRAPH_MAX: Final = 20_000
"""Jobs of one graph that the hall lists."""
SUBMIT_MAX: Final = 10_000
LAYOUT: Final = """async ([count, edges]) => {
  const { layout } = await import("/assets/js/graph/layout.js");
  const { x, y } = layout(count, edges);
  return [[...x], [...y]];
}"""
BLOCKERS: Final = """async ([states, edges]) => {
  const { blockers } = await import("/assets/js/graph/layout.js");
  return blockers(states, edges).map((one) => [one.node, one.after]);
}"""
LARGE: Final = """async () => {
  const { GraphCanvas } = await import("/assets/js/graph/canvas.js");
  const { layout } = await import("/assets/js/graph/layout.js");
  const edges = [];
  for (let node = 50; node < 5000; node += 1) edges.push([node - 50, node], [node - 50 + (node % 7), node]);
  const canvas = document.createElement("canvas");
  document.querySelector("main").append(canvas);
  const drawing = new GraphCanvas(canvas);
  const node = (_, index) => ({ label: `job-${index}`, tone: "good", mark: "check" });
  drawing.nodes = Array.from({ length: 5000 }, node);
  drawing.edges = edges;
  drawing.placed = layout(5000, edges);
  drawing.setColours();
  drawing.size(1100, 540);
  drawing.fit();
  const times = [];
  for (let step = 0; step < 15; step += 1) {
    drawing.pan(5, 3);
    const start = performance.now();
    drawing.draw();
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b)[7];
}"""


def test_a_child_is_right_of_all_its_parents_and_nothing_overlaps(screen: Screen) -> None:
    edges = [[0, 1], [0, 2], [1, 3], [2, 3], [0, 3], [3, 4]]
    left, top = screen.open("/queues").page.evaluate(LAYOUT, [6, edges])
    assert all(left[parent] < left[child] for parent, child in edges)
    assert len(set(zip(left, top, strict=True))) == 6


def test_a_graph_that_is_not_complete_says_so(screen: Screen, api: httpx.Client) -> None:
    (first,) = api.post("/jobs", json={"queue": "graph.part"}).json()["ids"]
    child = {"queue": "graph.part", "parents": [first]}
    for _ in range(GRAPH_MAX // SUBMIT_MAX):
        api.post("/jobs", json={"jobs": [child] * SUBMIT_MAX}).raise_for_status()
    screen.open(f"/graph?job={first}")
    said = screen.page.get_by_text("The graph is not complete: it shows 20,000 jobs")
    expect(said).to_be_visible(timeout=30_000)


def test_what_blocks_the_rest_is_what_could_go_on_and_has_not_succeeded(screen: Screen) -> None:
    states = ["done", "failed", "held", "held", "running", "held"]
    edges = [[0, 1], [1, 2], [2, 3], [0, 4], [4, 5]]
    assert screen.open("/queues").page.evaluate(BLOCKERS, [states, edges]) == [[1, 2], [4, 1]]


def test_five_thousand_jobs_are_drawn_within_a_few_frames_time(screen: Screen) -> None:
    assert screen.open("/queues").page.evaluate(LARGE) < 100


def test_the_graph_of_a_job_shows_its_family_and_finds_a_node(api: httpx.Client, screen: Screen) -> None:
    (first,) = api.post("/jobs", json={"queue": "family", "key": "grandmother"}).json()["ids"]
    (second,) = api.post("/jobs", json={"queue": "family", "key": "mother", "parents": [first]}).json()["ids"]
    child: Any = {"queue": "family", "key": "daughter", "parents": [second]}
    api.post("/jobs", json=child).raise_for_status()
    screen.open(f"/jobs/{second}")
    expect(screen.page.get_by_text("Waits for parents").first).to_be_visible()
    screen.page.get_by_role("link", name="Graph").click()
    blocking = screen.page.locator(".card").filter(has_text="What blocks the rest")
    expect(blocking).to_contain_text("grandmother")
    expect(blocking).to_contain_text("2 jobs after it")
    screen.page.get_by_label("Find a job in the graph").fill("daughter")
    expect(screen.page.locator(".graph-info")).to_contain_text("daughter")


def test_a_flow_that_grows_keeps_the_chosen_job_where_it_is(api: httpx.Client, screen: Screen) -> None:
    common = {"queue": "growing", "flow": "growing"}
    seeds = [{**common, "key": f"seed-{number}"} for number in range(4)]
    first = api.post("/jobs", json={"jobs": seeds}).json()["ids"][0]
    screen.open("/flows/growing")
    screen.page.get_by_label("Find a job in the graph").fill("seed-0")
    chosen = screen.page.locator(".graph-info")
    expect(chosen).to_contain_text("seed-0")
    leaves = [{**common, "key": f"leaf-{number}", "parents": [first]} for number in range(9)]
    api.post("/jobs", json={"jobs": leaves}).raise_for_status()
    expect(screen.page.get_by_text("9 jobs after it")).to_be_visible()
    expect(chosen).to_contain_text("seed-0")
    box = screen.page.locator(".graph-canvas").bounding_box()
    assert box is not None
    screen.page.mouse.click(box["x"] + 5, box["y"] + 5)
    expect(chosen).to_be_hidden()
    screen.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(chosen).to_contain_text("seed-0")
