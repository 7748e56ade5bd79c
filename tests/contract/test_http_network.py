"""One suite over every HTTP client: certificates, proxies, and how the process ends. Each call is
made in a process of its own, because the environment is read when a client is built."""

from __future__ import annotations

import asyncio
import ssl
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.faces.cli import python
from tests.unit.members.raw import Caller, RawServer, response

SOURCE = Path(__file__).parents[2] / "src"
CALL = """
import asyncio, json, sys
from fanfold.errors import MemberError
from fanfold.members.endpoint import http_client

async def main():
    http = http_client("m")
    await http.open()
    try:
        answers = [http.post(url, {}, b"body", 180) for url in sys.argv[2:]]
        said = [answer.body.decode() for answer in await asyncio.gather(*answers)]
    except MemberError as error:
        said = [type(error).__name__, str(error), error.lost]
    await http.close()
    print(json.dumps(said))

if sys.argv[1] == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


@pytest.fixture(params=["aiohttp", pytest.param("pyreqwest", marks=pytest.mark.slow)])
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def call(client: str, *urls: str, loop: str = "uvloop", **env: str) -> list[object]:
    given = {"PYTHONPATH": str(SOURCE), "FANFOLD_HTTP": client, **env}
    with TemporaryDirectory() as folder:
        ended = await asyncio.to_thread(python, Path(folder), CALL, loop, *urls, env=given)
    assert (ended.code, ended.err) == (0, "")
    return msgspec.json.decode(ended.out, type=list[object])


async def call_and_end(client: str, loop: str, *urls: str) -> list[object]:
    """From an interpreter that really ends, which one that is forked does not."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-c", CALL, loop, *urls),
        env={"PYTHONPATH": str(SOURCE), "FANFOLD_HTTP": client},
        stdout=PIPE,
        stderr=PIPE,
    )
    out, error = await process.communicate()
    assert (process.returncode, error.decode()) == (0, "")
    return msgspec.json.decode(out, type=list[object])


async def says_first_line(caller: Caller) -> None:
    while True:
        line, _, _ = await caller.request()
        await caller.send(response(line.encode()))


# ── certificates ─────────────────────────────────────────────────────────────────────────────


class Authority:
    """A certificate authority of the test's own. `file` is what a client has to trust."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "the test's own")])
        usage = x509.BasicConstraints(ca=True, path_length=None)
        made = self._certificate(self._key, self._name, usage)
        self.file = self._saved("ca.pem", made.public_bytes(serialization.Encoding.PEM))

    def server(self, address: str = "127.0.0.1") -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(address))])
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "server")])
        made = self._certificate(key, subject, names).public_bytes(serialization.Encoding.PEM)
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._saved("server.pem", secret + made))
        return context

    def _certificate(
        self, key: ec.EllipticCurvePrivateKey, subject: x509.Name, what: x509.ExtensionType
    ) -> x509.Certificate:
        now, day = datetime.now(UTC), timedelta(days=1)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        mine = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return (
            x509.CertificateBuilder(self._name, subject, key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(what, critical=isinstance(what, x509.BasicConstraints))
            .add_extension(mine, critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _saved(self, name: str, content: bytes) -> str:
        file = self._folder / name
        file.write_bytes(content)
        return str(file)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_ssl_cert_file_names_whom_to_trust(client: str, loop: str, authority: Authority) -> None:
    async def main() -> list[object]:
        async with RawServer(says_first_line, authority.server()) as server:
            return await call(client, f"{server.url}/x", loop=loop, SSL_CERT_FILE=authority.file)

    assert asyncio.run(main()) == ["POST /x HTTP/1.1"]


@pytest.mark.parametrize("wrong", ["authority", "address"])
def test_a_certificate_that_is_not_trusted_is_the_members_trouble(
    client: str, authority: Authority, wrong: str
) -> None:
    """And nothing was sent to whoever it is."""
    heard: list[str] = []

    async def talk(caller: Caller) -> None:
        heard.append((await caller.request())[0])

    async def main() -> list[object]:
        at = "127.0.0.1" if wrong == "authority" else "127.0.0.9"
        trusted = {} if wrong == "authority" else {"SSL_CERT_FILE": authority.file}
        async with RawServer(talk, authority.server(at)) as server:
            return await call(client, server.url, **trusted)

    kind, text, lost = asyncio.run(main())
    assert (kind, lost, heard) == ("Terminal", False, [])
    assert str(text).startswith("m: invalid peer certificate: ")
    assert str(text).endswith("; SSL_CERT_FILE can name the certificates to trust")


def test_a_server_that_does_not_speak_tls_has_heard_nothing(client: str) -> None:
    async def talk(caller: Caller) -> None:
        await caller.exactly(1)
        await caller.send(b"HTTP/1.1 400 This is no TLS\r\n\r\n")

    async def main() -> list[object]:
        async with RawServer(talk) as server:
            return await call(client, server.url.replace("http:", "https:"))

    kind, text, lost = asyncio.run(main())
    assert (kind, lost, str(text).startswith("m: no connection: ")) == ("Transient", False, True)


# ── proxies ──────────────────────────────────────────────────────────────────────────────────


async def joined(caller: Caller, port: int, greeting: bytes) -> None:
    """What follows goes to the port on loopback, whatever address was asked for."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await caller.send(greeting)
    try:
        await asyncio.gather(caller.pour_into(writer), caller.pour_from(reader))
    finally:
        writer.close()


class Proxy(RawServer):
    """Takes CONNECT and SOCKS 5. `asked`: what it was asked for, and the rights it was shown."""

    def __init__(self, refusal: bytes = b"") -> None:
        super().__init__(self._serve)
        self._refusal = refusal
        self.asked: list[tuple[str, str]] = []

    async def _serve(self, caller: Caller) -> None:
        with suppress(ConnectionError):
            first = await caller.exactly(1)
            await (self._socks(caller) if first == b"\5" else self._connect(caller))

    async def _connect(self, caller: Caller) -> None:
        line, headers = await caller.head()
        self.asked.append((f"C{line}", headers.get("proxy-authorization", "")))
        if self._refusal:
            return await caller.send(self._refusal)
        port = int(line.split()[1].rpartition(":")[2])
        return await joined(caller, port, b"HTTP/1.1 200 Connected\r\n\r\n")

    async def _socks(self, caller: Caller) -> None:
        await caller.exactly((await caller.exactly(1))[0])
        await caller.send(b"\5\0")
        kind = (await caller.exactly(4))[3]
        size = 4 if kind == 1 else (await caller.exactly(1))[0]
        host = await caller.exactly(size)
        port = int.from_bytes(await caller.exactly(2))
        name = str(IPv4Address(host)) if kind == 1 else host.decode()
        self.asked.append((f"SOCKS {name}:{port}", ""))
        if self._refusal:
            return await caller.send(b"\5\2\0\1\0\0\0\0\0\0")
        return await joined(caller, port, b"\5\0\0\1\0\0\0\0\0\0")


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_an_http_proxy_is_asked_for_the_whole_address(client: str, variable: str) -> None:
    async def main() -> list[object]:
        async with RawServer(says_first_line) as proxy:
            return await call(client, "http://example.invalid/x?y=1", **{variable: proxy.url})

    assert asyncio.run(main()) == ["POST http://example.invalid/x?y=1 HTTP/1.1"]


def test_a_proxy_is_shown_its_own_key(client: str) -> None:
    async def talk(caller: Caller) -> None:
        _, headers, _ = await caller.request()
        await caller.send(response(headers["proxy-authorization"].encode()))

    async def main() -> list[object]:
        async with RawServer(talk) as proxy:
            url = proxy.url.replace("//", "//me:p%40ss@")
            return await call(client, "http://example.invalid/", HTTP_PROXY=url)

    assert asyncio.run(main()) == ["Basic bWU6cEBzcw=="]


@pytest.mark.parametrize(
    "stated", ["127.0.0.1", "example.com, 127.0.0.1", "*", "127.0.0.0/8", "10.0.0.0/8,127.0.0.0/8"]
)
def test_no_proxy_says_what_is_reached_without_one(
    client: str, stated: str, request: pytest.FixtureRequest
) -> None:
    if (client, stated) == ("pyreqwest", "*"):
        request.applymarker(pytest.mark.xfail(reason="its `*` covers names, not addresses"))

    async def main() -> list[object]:
        async with RawServer(says_first_line) as server:
            url = f"{server.url}/y"
            return await call(client, url, HTTP_PROXY="http://127.0.0.1:1", NO_PROXY=stated)

    assert asyncio.run(main()) == ["POST /y HTTP/1.1"]


@pytest.mark.parametrize("stated", ["", "example.com", "27.0.0.1", "10.0.0.0/8"])
def test_no_proxy_says_nothing_of_others(client: str, stated: str) -> None:
    async def main() -> list[object]:
        async with RawServer(says_first_line) as proxy:
            return await call(client, "http://127.0.0.1:1/", HTTP_PROXY=proxy.url, NO_PROXY=stated)

    assert asyncio.run(main()) == ["POST http://127.0.0.1:1/ HTTP/1.1"]


def test_tls_goes_through_an_http_proxy(client: str, loop: str, authority: Authority) -> None:
    async def main() -> tuple[list[object], list[tuple[str, str]], int]:
        async with RawServer(says_first_line, authority.server()) as server, Proxy() as proxy:
            url = proxy.url.replace("//", "//me:p%40ss@")
            env = {"HTTPS_PROXY": url, "SSL_CERT_FILE": authority.file}
            said = await call(client, f"{server.url}/x", loop=loop, **env)
            return said, proxy.asked, server.port

    said, asked, port = asyncio.run(main())
    assert said == ["POST /x HTTP/1.1"]
    assert asked == [(f"CONNECT 127.0.0.1:{port} HTTP/1.1", "Basic bWU6cEBzcw==")]


@pytest.mark.parametrize("tls", [False, True])
def test_a_socks_proxy_is_used(client: str, loop: str, authority: Authority, tls: bool) -> None:
    async def main() -> tuple[list[object], list[tuple[str, str]], int]:
        context = authority.server() if tls else None
        async with RawServer(says_first_line, context) as server, Proxy() as proxy:
            url = proxy.url.replace("http:", "socks5:")
            env = {"ALL_PROXY": url, "SSL_CERT_FILE": authority.file}
            said = await call(client, f"{server.url}/x", loop=loop, **env)
            return said, proxy.asked, server.port

    said, asked, port = asyncio.run(main())
    assert (said, asked) == (["POST /x HTTP/1.1"], [(f"SOCKS 127.0.0.1:{port}", "")])


def test_socks5h_leaves_names_to_the_proxy(client: str) -> None:
    """So no name is looked up here."""

    async def main() -> tuple[list[object], list[tuple[str, str]], int]:
        async with RawServer(says_first_line) as server, Proxy() as proxy:
            url = f"http://example.invalid:{server.port}/x"
            said = await call(client, url, ALL_PROXY=proxy.url.replace("http:", "socks5h:"))
            return said, proxy.asked, server.port

    said, asked, port = asyncio.run(main())
    assert (said, asked) == (["POST /x HTTP/1.1"], [(f"SOCKS example.invalid:{port}", "")])


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("how", ["refuses", "is not there"])
def test_through_a_proxy_that_fails_nothing_is_sent(client: str, scheme: str, how: str) -> None:
    """It is worth another try and costs nothing."""

    async def main() -> tuple[list[object], int]:
        async with Proxy(b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n") as proxy:
            port = proxy.port if how == "refuses" else 1
            said = await call(
                client, "https://127.0.0.1:1/", HTTPS_PROXY=f"{scheme}://127.0.0.1:{port}"
            )
            return said, len(proxy.asked)

    (kind, text, lost), asked = asyncio.run(main())
    assert (kind, lost, asked) == ("Transient", False, 1 if how == "refuses" else 0)
    assert str(text).startswith("m: no connection: ")


# ── the end of the process ───────────────────────────────────────────────────────────────────


async def exits(client: str, loop: str, times: int) -> None:
    async with RawServer(says_first_line) as server:
        for _ in range(times):
            urls = [f"{server.url}/{n}" for n in range(8)]
            said = [f"POST /{n} HTTP/1.1" for n in range(8)]
            assert await call_and_end(client, loop, *urls) == said


def test_a_process_ends_cleanly_after_its_last_call(client: str, loop: str) -> None:
    asyncio.run(exits(client, loop, 1))


@pytest.mark.sweep
def test_500_processes_of_500_end_cleanly(client: str, loop: str) -> None:
    asyncio.run(exits(client, loop, 500))
