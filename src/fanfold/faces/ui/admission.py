"""Who may see the page: whoever has the link. Its token becomes a cookie that no other site can use.

Whatever else the browser does on this machine: a page of another site has neither the token nor the
cookie, and a name of its own that leads here (DNS rebinding) is not among the hosts.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from fanfold.faces.web import RequestRefused, is_authorized, is_same

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # with no-referrer a form would not say where it comes from
    "X-Content-Type-Options": "nosniff",
}
SAFE = ("GET", "HEAD")
_WITHOUT = "open the link that `fanfold ui` printed: it has the token of this page"


class PageAdmission:
    """`hosts` are the names with ports that the page may be reached by."""

    def __init__(self, token: str, hosts: Iterable[str], port: int) -> None:
        self._token, self._hosts = token, frozenset(hosts)
        self._cookie = f"fanfold-{port}"

    def __call__(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            raise RequestRefused("this host is not served here", status=421)
        self._check_origin(scope["method"], headers, host)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token", "")
        if given and scope["method"] in SAFE and is_same(given, self._token):
            return self._welcome(scope["path"], [pair for pair in query if pair[0] != "token"])
        if scope["path"] == "/metrics" and is_authorized(
            headers.get("authorization", ""), self._token
        ):
            return None
        if not is_same(cookie_parser(headers.get("cookie", "")).get(self._cookie, ""), self._token):
            raise RequestRefused(_WITHOUT, status=401)
        return None

    def _check_origin(self, method: str, headers: Headers, host: str) -> None:
        """An order must say that it comes from this page; what only reads may leave it open."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        own = origin == f"http://{host}" or (origin is None and method in SAFE)
        if not own or (site not in ("same-origin", "none") and method not in SAFE):
            raise RequestRefused("a page of another site may not ask this", status=403)

    def _welcome(self, path: str, query: list[tuple[str, str]]) -> Response:
        """The cookie, and the way to the same address without the token, so that nobody sees it by
        accident. Not a redirect: a browser that came from elsewhere would not send the cookie after it."""
        to = escape("/" + path.lstrip("/\\") + (f"?{urlencode(query)}" if query else ""))
        text = (
            f'<!doctype html><title>fanfold</title><link rel="icon" href="/static/icon.svg">'
            f'<meta http-equiv="refresh" content="0;url={to}"><a href="{to}">Continue</a>'
        )
        answer = Response(text, 200, HEADERS, "text/html; charset=utf-8")
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        return answer
