"""How all pages look: quiet, one accent colour, numbers that stand below each other."""

from __future__ import annotations

STYLE = """\
:root{--ink:#1b1f24;--soft:#57606a;--line:#d9dde2;--faint:#f4f6f8;--paper:#fff;--accent:#0a5a72;
--wash:#e3eff3;color-scheme:light dark}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e4e7ea;--soft:#9aa4af;--line:#31373e;
--faint:#1b2026;--paper:#12161a;--accent:#63bfd8;--wash:#17323b}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;padding:2.5rem 1.5rem 4rem;max-width:66rem;background:var(--paper);
color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,
"Noto Sans","DejaVu Sans",sans-serif;overflow-wrap:break-word}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .4rem;font-weight:650;letter-spacing:-.015em}
h2{font-size:1.2rem;line-height:1.3;margin:3rem 0 .9rem;padding-top:.9rem;font-weight:650;
border-top:2px solid var(--ink)}
h3{font-size:1rem;margin:1.8rem 0 .5rem;font-weight:650}
h4,h5,h6{font-size:.95rem;margin:1.3rem 0 .4rem;font-weight:650}
p,ul,ol{margin:.5rem 0;max-width:46rem}
li{margin:.15rem 0}
a{color:var(--accent);text-underline-offset:.15em}
a:focus-visible,summary:focus-visible,button:focus-visible{outline:2px solid var(--accent);
outline-offset:2px}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:.86em}
blockquote{margin:.5rem 0;padding-left:.9rem;border-left:2px solid var(--line);color:var(--soft)}
pre{margin:.6rem 0;padding:.8rem 1rem;background:var(--faint);border-radius:4px;overflow-x:auto;
white-space:pre-wrap}
nav{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;margin-top:1.5rem;font-size:.9rem}
nav a{text-decoration:none}
nav a:hover{text-decoration:underline}
.lead{font-size:1.05rem;margin:.2rem 0 0}
.meta,.note,footer{color:var(--soft);font-size:.88rem}
.note{margin:.5rem 0}
.status{display:inline-block;padding:.05rem .55rem;margin-right:.4rem;border-radius:999px;
background:var(--ink);color:var(--paper);font-size:.85rem;font-weight:600}
.status.complete{background:var(--accent)}
.figures{display:flex;flex-wrap:wrap;gap:1rem 2.6rem;margin:1.6rem 0 0}
.figures div{display:flex;flex-direction:column-reverse}
.figures dt{color:var(--soft);font-size:.82rem}
.figures dd{margin:0;font-size:1.45rem;line-height:1.25;font-weight:600;
font-variant-numeric:tabular-nums;white-space:nowrap}
.wide{overflow-x:auto;margin:.8rem 0}
table{border-collapse:collapse;width:100%;font-size:.9rem;line-height:1.42}
table.narrow{width:auto;min-width:20rem}
.two table.narrow{width:100%;min-width:0}
caption{text-align:left;color:var(--soft);font-size:.88rem;padding:0 0 .4rem}
th,td{max-width:34rem;padding:.38rem .9rem .38rem 0;text-align:left;vertical-align:top;
border-bottom:1px solid var(--line)}
th:last-child,td:last-child{padding-right:0}
thead th{color:var(--soft);font-weight:600;font-size:.82rem;vertical-align:bottom;
border-bottom:1px solid var(--soft);overflow-wrap:normal}
tbody th{font-weight:500}
.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap;overflow-wrap:normal}
.short{white-space:nowrap}
.mid{min-width:9rem;overflow-wrap:anywhere}
.long{min-width:16rem;width:40%;overflow-wrap:anywhere}
.again{color:var(--soft)}
.zero td,.zero th{color:var(--soft)}
th button{all:unset;cursor:pointer;font:inherit;color:inherit}
th button:focus-visible{outline:2px solid var(--accent)}
th[aria-sort] button::after{content:" \\2191"}
th[aria-sort=descending] button::after{content:" \\2193"}
q{quotes:"\\201c" "\\201d"}
.said{color:var(--soft)}
.said q{color:var(--ink)}
.chart td,.chart th{border-bottom:0;padding-top:.16rem;padding-bottom:.16rem;vertical-align:middle}
.chart th{width:1%;min-width:7rem;white-space:nowrap}
.chart .plot{padding-right:.8rem;min-width:8rem;width:100%;max-width:none}
.chart .num{width:1%;min-width:0}
svg{display:block;width:100%;overflow:visible}
svg.bar{height:.95rem}
.plot{min-width:7rem;vertical-align:middle}
.s0{fill:var(--accent)}
.s1{fill:var(--accent);fill-opacity:.62}
.s2{fill:var(--accent);fill-opacity:.34}
.s3{fill:var(--accent);fill-opacity:.18}
.s4{fill:var(--soft);fill-opacity:.3}
.bad{fill:var(--ink)}
.rail{fill:var(--faint)}
.tick{stroke:var(--line);stroke-width:1}
.gap{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 2}
svg text{fill:var(--soft);font-size:11px;font-variant-numeric:tabular-nums}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;list-style:none;padding:0;margin:.3rem 0 .5rem;
color:var(--soft);font-size:.85rem;max-width:none}
.legend svg{display:inline-block;width:.8rem;height:.8rem;margin-right:.35rem;vertical-align:-.05rem}
.tree th{font-weight:400}
.tree .d0{font-weight:650}
.d1{padding-left:1.1rem}.d2{padding-left:2.2rem}.d3{padding-left:3.3rem}.d4{padding-left:4.4rem}
.d5{padding-left:5.5rem}.d6{padding-left:6.6rem}.d7{padding-left:7.7rem}.d8{padding-left:8.8rem}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(17rem,1fr));gap:0 3rem}
details{margin:.8rem 0}
summary{cursor:pointer;color:var(--accent)}
footer{margin-top:3.5rem;padding-top:.8rem;border-top:1px solid var(--line)}
@media (max-width:36rem){body{padding:1.5rem 1rem 3rem;font-size:16px}h1{font-size:1.55rem}
.figures{gap:.8rem 1.8rem}.figures dd{font-size:1.2rem}.chart th{min-width:6.5rem;white-space:normal}
.long{min-width:14rem}}
@page{size:A4;margin:16mm 15mm}
@media print{body{max-width:none;padding:0;font-size:9.5pt;background:#fff}
nav,details,th button::after{display:none}
h1{font-size:19pt}h2{font-size:13pt;margin-top:1.6rem}
h2,h3,h4,caption,.legend{break-after:avoid}
thead{display:table-header-group}
tr,svg,.figures,.two>*{break-inside:avoid}
.wide{overflow:visible}.long{min-width:9rem}.mid{min-width:5.6rem}.short{white-space:normal}
svg,.status{-webkit-print-color-adjust:exact;print-color-adjust:exact}
a{color:inherit}
a[href^=http]:not(.bare)::after{content:" (" attr(href) ")";font-size:.85em}}
"""

SCRIPT = """\
for(const head of document.querySelectorAll("table.sorts thead th")){
const button=document.createElement("button");button.type="button";
button.append(...head.childNodes);head.append(button);
button.addEventListener("click",()=>{
const table=head.closest("table"),body=table.tBodies[0],at=head.cellIndex;
const down=head.getAttribute("aria-sort")==="ascending";
for(const other of table.querySelectorAll("th[aria-sort]"))other.removeAttribute("aria-sort");
head.setAttribute("aria-sort",down?"descending":"ascending");
const text=row=>row.cells[at].textContent.trim(),number=row=>parseFloat(text(row).replace(/[$,]/g,""));
const numbers=head.classList.contains("num");
const order=numbers?(a,b)=>(isNaN(number(a))?-Infinity:number(a))-(isNaN(number(b))?-Infinity:number(b))
:(a,b)=>text(a).localeCompare(text(b),undefined,{numeric:true});
body.append(...[...body.rows].sort((a,b)=>down?order(b,a):order(a,b)));
});}
"""
