"""Who may import whom. Imports go down the rows only, and nobody imports in a circle."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter

from tests.architecture.sources import ROOT, Import, foreign, imports, modules, ours, room

ROWS = (
    {"errors", "clock", "price"},
    {"work"},
    {"journal", "gates", "members"},
    {"run"},
    {"patterns"},
    {"plans", "observe"},
    {"fleet", "tune", "simulate"},
    {"faces"},
)
HEIGHT = {name: height for height, row in enumerate(ROWS) for name in row}

# A third-party package belongs to one room. msgspec is what records are made of, so it is everywhere.
# MCP has two ends: we serve it in one room, and are a client in another.
EVERYWHERE = {"msgspec", "mcp"}

# Packages that users install as extras: imported where they are used, never before.
EXTRAS = {
    "aiohttp_socks", "httpx2", "litellm", "mcp", "openpyxl", "opentelemetry", "psycopg", "pyarrow",
    "pydantic", "pypdf", "pyreqwest", "ray", "starlette", "uvicorn", "xllamacpp",
}  # fmt: skip

# Imports inside functions, allowed one by one: (module, what it imports), each with its reason.
LAZY = {
    ("fanfold.faces.cli.servers", "fanfold.faces.connections"): "only for a server",
    ("fanfold.faces.cli.servers", "fanfold.faces.mcp.http"): "another face, with its own extra",
    ("fanfold.faces.cli.servers", "fanfold.faces.mcp.server"): "another face, with its own extra",
    ("fanfold.faces.cli.servers", "fanfold.faces.mcp.tools"): "another face",
    ("fanfold.faces.cli.servers", "fanfold.faces.web"): "only for a server, with its own extra",
    (
        "fanfold.faces.cli.servers",
        "fanfold.faces.serve.session",
    ): "another face, with its own extra",
    ("fanfold.faces.cli.ui", "fanfold.faces.ui.session"): "another face, with its own extra",
    ("fanfold.faces.cli.ui", "fanfold.faces.web"): "only for a server, with its own extra",
    ("fanfold.observe.traces", "fanfold.observe.otel"): "has its own extra",
    ("fanfold.observe.html.prose", "markdown_it"): "only pages need it, and it is slow to import",
    ("fanfold.journal.opening", "fanfold.journal.postgres.queue"): "has its own extra",
    ("fanfold.journal.opening", "fanfold.journal.postgres.store"): "has its own extra",
    ("fanfold.members.agents.host", "fanfold.members.agents.dialects"): "a host stays small",
    ("fanfold.members.endpoint", "fanfold.members.http_aiohttp"): "slow to import",
    ("fanfold.members.endpoint", "fanfold.members.http_pyreqwest"): "has its own extra",
    ("fanfold.members.tool_sources", "fanfold.members.mcp_tools"): "has its own extra",
    ("fanfold.members.agents.processes", "psutil"): "a host stays small, and Linux needs no more",
    ("fanfold.work.folders", "platformdirs.unix"): "7 ms that few commands need",
}

# A face of its own that needs an extra throughout: loaded as a whole, and only when it is started.
LATE = {
    "fanfold.faces.web": {"starlette", "uvicorn"},
    "fanfold.faces.serve.app": {"starlette"},
    "fanfold.faces.ui.admission": {"starlette"},
    "fanfold.faces.ui.app": {"starlette"},
    "fanfold.faces.mcp.http": {"mcp", "starlette"},
    "fanfold.faces.mcp.server": {"mcp"},
    "fanfold.journal.postgres": {"psycopg"},
    "fanfold.journal.postgres.connection": {"psycopg"},
    "fanfold.journal.postgres.home": {"psycopg"},
    "fanfold.journal.postgres.queue": {"psycopg"},
    "fanfold.journal.postgres.sessions": {"psycopg"},
    "fanfold.members.http_pyreqwest": {"pyreqwest"},
    "fanfold.members.mcp_http": {"httpx2", "mcp"},
    "fanfold.members.mcp_stdio": {"mcp"},
    "fanfold.members.mcp_tools": {"mcp"},
    "fanfold.observe.otel": {"opentelemetry"},
}

# How a package is called in pyproject.toml, where that is not the name it is imported by.
PACKAGE_NAMES = {
    "aiohttp_socks": "aiohttp-socks", "jsonschema_rs": "jsonschema-rs",
    "markdown_it": "markdown-it-py", "opentelemetry": "opentelemetry-exporter-otlp-proto-http",
    "yaml": "pyyaml",
}  # fmt: skip


def allowed(found: Import) -> bool:
    """The rows of the design, the front door, the rooms that stand beside the rows."""
    here, there = room(found.module), room(found.target)
    if here == "fanfold":
        return there not in ("faces", "testing", "apps")
    if here == there:
        return here not in ROWS[0]
    if here == "testing":
        return there in HEIGHT and there != "faces"
    if here == "__main__":
        return there == "faces"
    if here == "faces":
        return there != "apps"
    if here == "apps":
        return there == "fanfold"
    if here not in HEIGHT or there not in HEIGHT:
        return False
    return HEIGHT[there] < HEIGHT[here]


def test_every_room_has_its_place() -> None:
    beside = {"fanfold", "testing", "apps", "__main__"}
    assert {room(module) for module in modules()} - HEIGHT.keys() - beside == set()


def test_imports_go_down_the_rows() -> None:
    assert [str(found) for found in ours() if not allowed(found)] == []


def test_errors_clock_and_price_import_nothing_of_ours() -> None:
    assert [str(found) for found in ours() if room(found.module) in ROWS[0]] == []


def test_applications_are_ordinary_users() -> None:
    """They import the front door, their neighbours and Python's own library; nobody imports them."""
    assert [str(found) for found, _ in foreign() if room(found.module) == "apps"] == []
    told = [found for found in ours() if "apps" in (room(found.module), room(found.target))]
    assert [str(found) for found in told if found.target != "fanfold"] == []


def test_the_faces_are_strangers_to_one_another() -> None:
    """Only the command line may start the others, and then inside the command. What those that
    speak HTTP have in common lies beside them, and so does whether an extra is installed."""
    common = {"fanfold.faces.connections", "fanfold.faces.extra", "fanfold.faces.web"}

    def face(name: str) -> str:
        return ".".join(name.split(".")[:3])

    between = [
        found
        for found in ours()
        if room(found.module) == room(found.target) == "faces"
        and face(found.module) != face(found.target)
        and face(found.target) not in common
        and not (face(found.module) == "fanfold.faces.cli" and found.in_function)
    ]
    assert [str(found) for found in between] == []


def test_there_is_no_import_cycle() -> None:
    graph: dict[str, set[str]] = {module: set() for module in modules()}
    for found in ours():
        if found.target != found.module:
            graph[found.module].add(found.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        raise AssertionError(f"import cycle: {' > '.join(cycle.args[1])}") from None


def test_nothing_is_imported_inside_a_function() -> None:
    """But extras, and what stands in LAZY with its reason."""
    inside = [found for found in imports() if found.in_function]
    free = [
        found
        for found in inside
        if found.target.split(".")[0] not in EXTRAS and (found.module, found.target) not in LAZY
    ]
    assert [str(found) for found in free] == []
    assert LAZY.keys() - {(found.module, found.target) for found in inside} == set()


def test_extras_are_imported_only_inside_functions() -> None:
    """Or in a module that is itself loaded late."""
    early = [
        found
        for found, package in foreign()
        if package in EXTRAS
        and not found.in_function
        and package not in LATE.get(found.module, set())
    ]
    assert [str(found) for found in early] == []


def test_a_face_with_an_extra_is_loaded_only_when_it_is_started() -> None:
    """No module outside such a face has it loaded together with itself."""
    early: dict[str, set[str]] = {}
    for found in ours():
        if not found.in_function:
            early.setdefault(found.module, set()).add(found.target)
    for late in LATE:
        face = late.rpartition(".")[0]
        reached = [module for module in modules() if not module.startswith(face)]
        for module in reached:
            reached += early.pop(module, set())
        assert late not in reached


def test_a_third_party_package_is_imported_in_one_room_only() -> None:
    rooms: dict[str, set[str]] = {}
    for found, package in foreign():
        rooms.setdefault(package, set()).add(room(found.module))
    shared = {package: sorted(where) for package, where in rooms.items() if len(where) > 1}
    assert {package: where for package, where in shared.items() if package not in EVERYWHERE} == {}


def test_the_declared_dependencies_are_the_imported_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [name for group in project["optional-dependencies"].values() for name in group]
    declared = {re.split(r"[<>=!~;\[ ]", name)[0] for name in [*project["dependencies"], *extras]}
    imported = {PACKAGE_NAMES.get(package, package) for _, package in foreign()}
    assert imported == declared


def test_nobody_outside_the_journal_knows_which_store_there_is() -> None:
    """A store is opened by its place (`journal/opening`); which backend that is, only it knows. And
    what simulates the disk and the queue behind one."""
    simulated = {f"fanfold.testing.simulation.{one}" for one in ("storage", "disk", "queueing")}
    backends = ("sqlite3", "fanfold.journal.sqlite", "fanfold.journal.memory")
    knowing = [
        found
        for found in imports()
        if room(found.module) not in ("journal", "apps")
        and found.module not in simulated
        and found.target.startswith(backends)
    ]
    assert [str(found) for found in knowing] == []


def test_the_host_of_an_agent_loads_little() -> None:
    """There is one for every agent at work: it knows records and processes, and neither plans nor prompts."""
    code = "import fanfold.members.agents.host, sys; print(*sys.modules)"
    said = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    loaded = set(said.stdout.split())
    assert "fanfold.members.agents.host" in loaded
    assert not loaded & {"asyncio", "fanfold.work.ask", "fanfold.work.member", "secrets", "yaml"}
