"""Rules for clauses about ideas and licences, and about duties along the way."""

from __future__ import annotations

from rule import LICENCE, MAY, NOT, rule

RIGHTS = (
    # ── ideas and licences ───────────────────────────────────────────────────────────────────
    rule(
        "Ip Ownership Assignment", "high", "ownership of what is made goes to one side",
        anchors="assign|for hire|property of|owned by|owner of|own all|vest",
        cue=(
            r"(?:hereby|shall|will|agrees? to|does|irrevocably)\b…\bassigns?\b…(?:right,? title"
            r"|rights,? title|title and interest|intellectual|copyright|patent|invention"
            r"|trademark|work product|developments|improvement|ownership)",
            r"works? (?:made )?for[- ]hire",
            r"(?:developed|created|made|conceived|prepared|work product|deliverables"
            r"|improvements|inventions|results|modifications|derivative works)\b…(?:shall|will) "
            r"(?:be(?:come)?|belong|vest)…(?:property of|owned (?:solely |exclusively )?by"
            r"|belong to|vest in)",
        ),
        unless=(rf"{NOT}…assign|accounts receivable|successors"
                r"|invention assignment agreements with|its employees…agreement|jointly|has assigned"
                r"|been assigned",),
    ),
    rule(
        "Joint Ip Ownership", "medium", "what is made belongs to both",
        anchors="joint",
        cue=(r"jointly[- ]own|joint(?:ly)? (?:owner|property)|joint ownership|owned jointly"
             r"|joint (?:invention|patent|intellectual|technology|work product)s?",),
        unless=(r"joint venture",),
    ),
    rule(
        "License Grant", "low", "rights to use are given away",
        anchors="grant",
        cue=(
            rf"\bgrants?\b…(?:{LICENCE}|right(?:s)? (?:and|to (?:use|access|display|sell|market"
            r"|distribute|resell|reproduce|promote|operate|manufacture|link)))",
            rf"{LICENCE} (?:\w+ ){{0,4}}(?:is|are) (?:hereby )?granted|is (?:hereby )?granted"
            rf"…{LICENCE}",
        ),
        unless=(rf"{NOT}…(?:grant|construed|licen[sc]e|right)|grants? (?:of )?(?:options?|stock"
                r"|restricted|shares)|registration rights|security interest|governmental"
                r"|regulatory|licen[sc]es? and permits|power of attorney|lien",),
        worse=(r"\bexclusive|sublicen[sc]",),
    ),
    rule(
        "Non-Transferable License", "low", "rights to use cannot be passed on",
        anchors="transferable|transferrable|non-assignable|nonassignable|sublicens|sub-licens|sublicenc",
        cue=(
            rf"non-? ?(?:transferr?able|assignable|sublicen[sc]e?able)…(?:{LICENCE}|rights?)|"
            rf"(?:{LICENCE}|rights?)…non-? ?(?:transferr?able|assignable|sublicen[sc]e?able)",
            rf"(?:{LICENCE}|rights?)…not (?:be )?(?:transferr?able|sublicen[sc]e?able)",
            rf"(?:{NOT}|without)…(?:right|entitled|may) (?:\w+ )?(?:to"
            r"|of)? ?(?:grant )?sub-?licen[sc]|\bnot (?:\w+,? ){0,3}sub-?licen[sc]e\b",
        ),
        unless=(r"shares|warrants? (?:is|are)|stock|sublicensees?\b",),
    ),
    rule(
        "Irrevocable Or Perpetual License", "high", "rights to use can never be taken back",
        anchors="perpetu|irrevocabl",
        cue=(
            rf"(?:perpetual|irrevocable)\b…(?:{LICENCE}|rights? (?:to|and)|right\b)|{LICENCE}"
            r"…\b(?:perpetual|irrevocable|in perpetuity|perpetuity)",
        ),
        unless=(r"letters? of credit|proxy|power of attorney|attorney-in-fact|jurisdiction|venue"
                r"|guarant|waive|terminat|instruction|undertaking|payment",),
    ),
    rule(
        "Source Code Escrow", "medium", "source code lies with a third party",
        anchors="escrow",
        cue=(r"source (?:code|materials)…..escrow|escrow…..source (?:code|materials)"
             r"|escrow agent…(?:software|technology|deposit materials)|technology escrow"
             r"|release from escrow",),
        unless=(r"escrow account…(?:fund|purchase price|subscri)",),
    ),
    rule(
        "Covenant Not To Sue", "medium", "rights of the other may not be challenged",
        anchors="contest|challeng|attack|dispute|oppose|impugn|not to sue|not sue|adversely affect|release",
        cue=(
            rf"{NOT}…\b(?:contest|challeng|attack|disput|oppos|question|impugn|impair)\w*\b"
            r"…(?:validity|ownership|title|enforceab|registra|\bmarks?\b|trade ?marks?|patents?"
            r"|intellectual property|proprietary|rights? (?:of|in|to))",
            r"covenants?…not (?:to )?…\bsue\b|not (?:to )?sue\b",
            rf"{NOT} (?:do|take|engage|cause|commit)…adversely affect…(?:marks?|trade ?marks?"
            r"|validity|intellectual)",
            r"(?:hereby|forever) (?:\w+ ){0,4}releases?…(?:claims?|liabilit|actions)",
        ),
        unless=(r"dispute resolution|good faith dispute|disputed (?:amount|invoice)|no (?:claim"
                r"|action|suit|proceeding|litigation)s?\b…(?:pending|threaten)|knowledge|has "
                r"(?:not )?received",),
    ),
    # ── duties along the way ─────────────────────────────────────────────────────────────────
    rule(
        "Audit Rights", "low", "the other side may look into books or premises",
        anchors="audit|inspect|examin",
        cue=(
            rf"(?:{MAY}|permit|allow|access|upon|entitled|open|available|subject)\b…\b(?:audit"
            r"|inspect|examin)\w*\b…(?:books|records|accounts|facilit|premises|ledger|documents"
            r"|locations?|operations|offices|compliance|plant|manufactur)",
            r"(?:books|records|accounts|facilit\w+|premises)\b…(?:available|open|subject|permit"
            r"|access|right)…\b(?:audit|inspect|examin|review)",
            r"right (?:to|of) (?:audit|inspect)|audit rights?|(?:may|shall) (?:conduct|perform"
            r"|cause)…\baudits?\b",
            r"(?:access|available)…(?:books|records)…(?:request|business hours|notice)",
        ),
        unless=(r"audited financial statements|audit committee|inspector|accept(?:ance)?…"
                r"(?:goods|shipment)|has been audited|stockholder|shareholders? list",),
        worse=(r"at any time|without (?:prior )?notice|unlimited",),
    ),
    rule(
        "Warranty Duration", "low", "a warranty runs out, or binds, for a fixed time",
        anchors="warrant",
        cue=(
            r"warrant(?:s|y|ies|ed)?\b…(?:for|during|within) (?:a |the )?(?:minimum )?(?:\w+ )?"
            r"(?:period|term)? ?(?:of )?(?:\w+ )?\(?[\d\[*]+[\])*]* ?\)? ?-?(?:calendar )?"
            r"(?:days?|months?|years?)",
            r"warranty period|period of (?:the )?warranty|warrant(?:y|ies)…(?:expire|valid for"
            r"|extend|remain in effect|commence)",
            r"(?:for|within) (?:a period of )?(?:\w+ )?\(?\d+\)? ?(?:days?|months?|years?)…"
            r"(?:after|from|following)…(?:delivery|acceptance|shipment|installation)…warrant",
        ),
        unless=(r"warrants? (?:to purchase|exercis|holder|agent|certificate|shares)|common stock"
                r"|represents and warrants that…surviv|surviv|underwrit",),
    ),
    rule(
        "Insurance", "low", "cover must be bought and kept",
        anchors="insurance|insured",
        cue=(
            r"(?:maintain|obtain|carry|carries|procure|keep|take out|provide|secure|effect"
            r"|purchase|have|arrange|furnish|subscribe)\w*\b…\b(?:insurance|insured)\b",
            r"insurance…(?:not less than|no less than|minimum|in the amount|at least|\$"
            r"|shall be maintained|limits?)",
            r"additional(?:ly)? (?:named )?insureds?|certificates? of insurance|named as an? "
            r"(?:additional )?insured",
        ),
        unless=(r"insurance (?:law|act|commission|department)|title insurance|deposit insurance"
                r"|fdic|life insurance polic|health insurance portab|unemployment insurance"
                r"|social (?:security|insurance)|insurance benefits|employee benefit"
                r"|sale of insurance|insurance products|no (?:extra )?insurance|has been no"
                r"|insurance carriers",),
    ),
)  # fmt: skip
