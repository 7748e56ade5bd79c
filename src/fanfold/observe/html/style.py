"""How all pages look: quiet, one accent colour, numbers that stand below each other."""

from __future__ import annotations

_CELL_BY_CELL = """\
TABLE,TABLE tbody,TABLE tr,TABLE th,TABLE td{display:block;width:auto;min-width:0;max-width:none}
TABLE caption{display:block}
TABLE thead{display:none}
TABLE tr{padding:.45rem 0;border-bottom:1px solid var(--line)}
TABLE tbody th,TABLE td{padding-top:.08rem;padding-bottom:.08rem;padding-right:0;border:0;
white-space:normal;overflow-wrap:anywhere}
TABLE tbody th,TABLE td:first-child{font-weight:600}
TABLE td:first-child::before{font-weight:400}
TABLE td[data-title]{display:flex;gap:1rem;justify-content:space-between;text-align:right}
TABLE td[data-title]::before{content:attr(data-title);flex:none;max-width:45%;color:var(--soft);
text-align:left}
TABLE td.long{display:block;text-align:left}
TABLE td.long::before{display:block}
TABLE td:empty{display:none}
TABLE .d1{padding-left:.5rem}TABLE .d2{padding-left:1rem}TABLE .d3{padding-left:1.5rem}
TABLE .d4,TABLE .d5,TABLE .d6,TABLE .d7,TABLE .d8{padding-left:2rem}
"""
"""A table whose columns do not fit beside each other: row by row, each cell with its title."""

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
.said{color:var(--soft)}
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
.pager{display:flex;flex-wrap:wrap;gap:.3rem .8rem;align-items:center;margin:1.1rem 0 .6rem}
.pager button,.pager input{font:inherit;color:inherit;background:var(--paper);
border:1px solid var(--line);border-radius:4px;padding:.15rem .6rem}
.pager button{cursor:pointer}
.pager button:disabled{opacity:.45;cursor:default}
.pager input{min-width:0;width:12rem}
.items details{margin:0;padding:.3rem 0;border-bottom:1px solid var(--line)}
.items summary{color:var(--ink);font-variant-numeric:tabular-nums}
footer{margin-top:3.5rem;padding-top:.8rem;border-top:1px solid var(--line)}
@media (max-width:36rem){body{padding:1.5rem 1rem 3rem;font-size:16px}h1{font-size:1.55rem}
.figures{gap:.8rem 1.8rem}.figures dd{font-size:1.2rem}.chart th{min-width:6.5rem;white-space:normal}
}
@media (max-width:36rem){STACK.wide{overflow:visible}}
@media (max-width:72rem){MANY}
@media screen and (min-width:72rem){.broad{width:94vw;max-width:104rem;
margin-left:calc(50% - min(47vw,52rem))}}
@page{size:A4;margin:16mm 15mm}
@media print{body{max-width:none;padding:0;font-size:9.5pt;background:#fff}
nav,details,.pager,th button::after{display:none}
h1{font-size:19pt}h2{font-size:13pt;margin-top:1.6rem}
h2,h3,h4,caption,.legend{break-after:avoid}
thead{display:table-header-group}
tr,svg,.figures,.two>*{break-inside:avoid}
.wide{overflow:visible}.long{min-width:9rem}.mid{min-width:5.6rem}.short{white-space:normal}
svg,.status{-webkit-print-color-adjust:exact;print-color-adjust:exact}
a{color:inherit}
a[href^=http]:not(.bare)::after{content:" (" attr(href) ")";font-size:.85em}}
""".replace("STACK", _CELL_BY_CELL.replace("TABLE", ".stack")).replace(
    "MANY", _CELL_BY_CELL.replace("TABLE", ".many")
)

SCRIPT = """\
const named=(tag,style,title)=>{const made=document.createElement(tag);
if(style)made.className=style;if(title)made.dataset.title=title;return made;};
const filled=(into,text)=>{
if(/^https?:\\/\\/[^\\s<>"']{1,500}$/.test(text)){const link=named("a","bare");
link.setAttribute("href",text);link.rel="noreferrer";link.append(text);into.append(link);return into;}
text.split("\\n").forEach((line,n)=>into.append(...(n?[document.createElement("br"),line]:[line])));
return into;};
const row=heads=>cells=>{const made=named("tr");
made.append(...cells.map((text,n)=>filled(named("td",heads[n].className,heads[n].textContent),text)));
return made;};
const item=([line,reasons,reply])=>{const made=named("details"),head=named("summary");
head.append(line);made.append(head);
if(reasons)made.append(filled(named("p","note"),reasons));
const said=reply?named("pre"):named("p","note");said.append(reply||"No reply.");made.append(said);
return made;};
const unpack=async text=>{
const bytes=Uint8Array.from(atob(text),sign=>sign.charCodeAt(0));
const open=new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
const columns=JSON.parse(await new Response(open).text());
return columns[0].map((_,n)=>columns.map(column=>column[n]));};
const number=text=>{const found=parseFloat(text.replace(/[$,≤]/g,""));return isNaN(found)?-Infinity:found;};
const compare=numbers=>numbers?(a,b)=>number(a)-number(b)
:(a,b)=>a.localeCompare(b,undefined,{numeric:true});
const turn=(pager,box,rows,size)=>{
const table=box.querySelector("table.sorts");
const into=table?table.tBodies[0]:box,make=table?row([...table.tHead.rows[0].cells]):item;
const many=n=>n.toLocaleString("en"),button=text=>{const made=named("button");made.type="button";
made.append(text);return made;};
const back=button("Back"),next=button("Next"),told=named("span"),find=named("input");
find.type="search";find.placeholder="Find";find.setAttribute("aria-label","Find");
let found=rows,at=0;
const show=()=>{into.replaceChildren(...found.slice(at,at+size).map(make));
const last=Math.min(at+size,found.length);
told.textContent=found.length?`${many(at+1)}–${many(last)} of ${many(found.length)}`:"nothing found";
back.disabled=!at;next.disabled=last>=found.length;};
back.addEventListener("click",()=>{at=Math.max(0,at-size);show();});
next.addEventListener("click",()=>{at+=size;show();});
find.addEventListener("input",()=>{const text=find.value.toLowerCase();at=0;
found=rows.filter(one=>one.some(cell=>cell.toLowerCase().includes(text)));show();});
if(table)table.order=sort=>{rows.sort(sort);found.sort(sort);at=0;show();};
pager.replaceChildren(back,told,next,find);show();};
for(const head of document.querySelectorAll("table.sorts thead th")){
const button=document.createElement("button");button.type="button";
button.append(...head.childNodes);head.append(button);
button.addEventListener("click",()=>{
const table=head.closest("table"),body=table.tBodies[0],at=head.cellIndex;
const down=head.getAttribute("aria-sort")==="ascending";
for(const other of table.querySelectorAll("th[aria-sort]"))other.removeAttribute("aria-sort");
head.setAttribute("aria-sort",down?"descending":"ascending");
const order=compare(head.classList.contains("num")),turned=(a,b)=>down?order(b,a):order(a,b);
if(table.order){table.order((a,b)=>turned(a[at],b[at]));return;}
const text=one=>one.cells[at].textContent.trim();
body.append(...[...body.rows].sort((a,b)=>turned(text(a),text(b))));
});}
for(const more of document.querySelectorAll("template.more")){
const box=more.previousElementSibling,pager=box.previousElementSibling;
unpack(more.content.textContent).then(rows=>turn(pager,box,rows,+more.dataset.size)).catch(()=>{});}
"""
