"""What a risk clause looks like: one rule for each category, as phrases and what must not be there.

The phrases are regular expressions over text in small letters. In them a blank stands for any white
space, `…` for up to 160 signs and `…..` for up to 400, all within one sentence.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

Severity: TypeAlias = Literal["low", "medium", "high"]

_SHORT_FORMS = (
    ("…..", r"[\s\S]{0,400}?"), ("…", r"[\s\S]{0,160}?"), (" ?", r"\s*"), (" ", r"\s+"),
)  # fmt: skip

NOT = r"\b(?:not|neither|nor|never|no|none|cannot|refrain(?:s|ed)?)\b"
OR_NOT = r"\b(?:except|excluding|other than|save for|exception of|without limiting|subject to)\b"
MAY = r"\b(?:may|can|shall have the right|will have the right|has the right|have the right|right to|entitled to|option to|elect to)\b"
MUST = r"\b(?:shall|will|must|agrees?|undertakes?|covenants?)\b"
LICENCE = r"\b(?:sub)?licen[sc]es?\b"


class Rule(NamedTuple):
    """A clause of `category`: an anchor and a cue in one sentence, and `unless` not around the cue.

    `anchors` are plain words that make it worth looking. `sure` are cues that need no second look.
    `worse` and `milder` shift the severity by one level.
    """

    category: str
    severity: Severity
    why: str
    anchors: tuple[str, ...]
    cue: re.Pattern[str]
    sure: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None
    worse: re.Pattern[str] | None = None
    milder: re.Pattern[str] | None = None


def _phrases(*phrases: str) -> re.Pattern[str]:
    told = "|".join(f"(?:{phrase})" for phrase in phrases)
    for short, meant in _SHORT_FORMS:
        told = told.replace(short, meant)
    return re.compile(told)


def _maybe(phrases: tuple[str, ...]) -> re.Pattern[str] | None:
    return _phrases(*phrases) if phrases else None


def _rule(
    category: str,
    severity: Severity,
    why: str,
    *,
    anchors: str,
    cue: tuple[str, ...],
    **more: tuple[str, ...],
) -> Rule:
    shaped = {name: _maybe(phrases) for name, phrases in more.items()}
    return Rule(category, severity, why, tuple(anchors.split("|")), _phrases(*cue), **shaped)


RULES = (
    # ── money that may be owed ───────────────────────────────────────────────────────────────
    _rule(
        "Uncapped Liability", "high", "some liability has no limit",
        anchors="liab",
        cue=(
            rf"{OR_NOT}…(?:indemni|confidential|negligence|misconduct|fraud|breach|infring|section"
            rf"|article|obligation|claim)…..(?:no event|no circumstance|no party|neither|not be|nor|none)\b…(?:liable"
            r"|liability|exceed)",
            r"(?:limitations?|exclusions?|caps?)\b…(?:liab|damages|section|set forth|foregoing|above)…"
            r"\bnot (?:be )?(?:apply|applicable|available|limit)\b|inapplicable",
            r"(?:limitations? (?:of|on) (?:liability|damages)|liability cap)…(?:not|inapplicable)",
            r"none of…limitations? (?:of|on) liability",
            r"(?:nothing|no provision) (?:in|contained|herein)…(?:limit|exclude|restrict)s?\b…liabilit",
            r"liab…(?:unlimited|without limit(?:ation)? as to amount)",
        ),
        worse=(),
        milder=(r"required by law|by applicable law",),
    ),
    _rule(
        "Cap On Liability", "medium", "what can be recovered is limited",
        anchors="liab|damages|remed",
        cue=(
            rf"(?:{NOT}|under no)…(?:liable|liability|responsible|obligat)…..(?:consequential|incidental"
            r"|indirect|special|punitive|exemplary|lost profit|loss of (?:profit|revenue|business)"
            r"|exceed|in excess of|greater than|more than)",
            r"liabilit(?:y|ies)\b…(?:limited to|not exceed|exceed|be capped)",
            r"(?:maximum|aggregate|total) (?:\w+ )?liability…(?:limited|exceed|be|is)\b",
            rf"(?:waive|disclaim|exclude)s?\b…(?:consequential|incidental|punitive|indirect)",
            rf"(?:no|neither) (?:party|action|claim)…(?:bring|brought|assert)…(?:more than|later than|after)"
            r"…(?:years?|months?)",
        ),
        worse=(r"\b(?:sole and exclusive|fees (?:actually )?paid|amounts? (?:actually )?(?:paid|received))",),
        milder=(),
    ),
    _rule(
        "Liquidated Damages", "high", "a fixed sum falls due on breach or on ending early",
        anchors="liquidated|termination fee|termination charge|penalt|cancellation fee|break-up fee",
        cue=(
            r"(?:as|be|pay|of|deemed|and) (?:\w+ ){0,3}liquidated damages?|liquidated damages?…(?:shall|will|pay|at|of|in the)",
            r"(?:pay|receive|entitled to)…(?:early )?(?:termination|cancellation|break-up) (?:fee|charge|payment)s?",
            r"(?:termination|cancellation) (?:fee|charge)s?…(?:equal|\$|paid|payable|amount)",
            r"pay…(?:as|a) (?:a )?penalty (?:of|in|equal|for)|pay…as a penalty",
        ),
        unless=(r"\bnot…(?:liable|subject|pay|incur|any)…(?:penalt|termination fee|liquidated)",
                r"without…(?:penalt|termination fee)", r"civil penalt|penalties of perjury|tax"),
        worse=(),
        milder=(),
    ),
    _rule(
        "Minimum Commitment", "high", "a minimum must be bought, paid or done whatever happens",
        anchors="minimum|at least|no less than|not less than|no fewer than|shortfall|quota",
        cue=(
            r"minimum (?:\w+ ){0,3}(?:purchase|order|royalt|quantit|volume|commitment|guarante|payment"
            r"|sales|requirement|amount|spend|fee|revenue|annual|number of|units)",
            r"(?:purchase|order|buy|pay|sell|guarantee|spend|take|deliver|achieve)s?\b…(?:a minimum|minimum of|at least"
            r"|no(?:t)? less than|no fewer than) (?:an? )?(?:\w+ ){0,4}(?:\(?\$|[\d\[*]|percent|units?\b)",
        ),
        unless=(r"insur|notice|coverage|net worth|minimum wage|days(?:'|\b)…(?:prior|written|advance)",
                r"premium|retain|audit|records|rating|shareholder|stockholder|does not include|not (?:be )?subject to|has the meaning"
                r"|no minimum|minimum requirements for|days after",),
        worse=(r"shortfall|fails? to|terminat",),
        milder=(r"reasonable efforts|best efforts|endeavou?r",),
    ),
    _rule(
        "Revenue/Profit Sharing", "medium", "a share of revenue or profit must be paid away",
        anchors="royalt|revenue|commission|net sales|profit|gross sales|percent|%",
        cue=(
            r"royalt(?:y|ies)…(?:percent|%|equal to|at the rate|of net|rate)",
            r"(?:pay|receive|entitled|retain|remit|share)s?\b…(?:percent|%)\)?…(?:of|on) (?:\w+ ){0,5}(?:revenue|net sales"
            r"|gross sales|sales|profits?|receipts|proceeds|income|fees|commissions?|assets|purchase price|gross|net)\b",
            r"(?:revenue|profit|fee)s?[- ]?(?:shar(?:e|ing)|split)",
            r"\bshared?\b…(?:revenues?|profits?|fees)\b|(?:revenues?|profits?|fees)\b…\bshared\b",
            r"(?:fee|compensation|payment|share)s?\b…(?:percent|%)\)?\]? of (?:\w+'?s? ){0,5}(?:revenue|sales|profits?|receipts|proceeds|income|assets)",
            r"pay…\bcommissions?\b…(?:percent|%|equal|of|on)",
        ),
        unless=(r"underpa|discrepan|interest at|late payment|overdue|past due|withh[eo]ld|\btax"
                r"|no responsib|not be (?:liable|entitled)|refrain|shareholder|shares? of",),
    ),
    # ── freedom to do business ───────────────────────────────────────────────────────────────
    _rule(
        "Non-Compete", "high", "a party may not compete",
        anchors="compet",
        cue=(
            rf"{NOT}…..\b(?:engage|compete|own|market|sell|develop|distribute|manufactur\w+|promot\w+|offer|operate"
            r"|participate|carry|interest|represent|acquire|invest|assist|provide|enter|licen[sc]e|deal|handle"
            r"|act|commerciali[sz]e|conduct|solicit|use|purchase|accept)…\bcompet(?:e|es|ing|itive|itors?)\b",
            r"\bnot (?:to )?(?:directly or indirectly )?compete\b|covenants? not to compete|\bnon-? ?compet(?:e|ition)\b",
        ),
        unless=(r"competitive(?:ly)? (?:bid|disadvantage|pric|advantage|process|basis|harm|market|rates?)|unfair(?:ly)? compet"
                r"|competent|competenc|(?:nothing|no provision)…(?:restrict|prevent|prohibit|limit|preclude)|confidential|disclos"
                r"|not (?:be )?(?:restrict|prohibit|prevent|preclude)|assign|represents? (?:and warrants? )?that|terminat"
                r"|anti-?trust|competing claim|free(?:dom)? to|compete fairly",),
        worse=(r"years?|after (?:the )?(?:termination|expiration)|thereafter",),
        milder=(r"without the (?:prior )?(?:written )?(?:consent|approval)",),
    ),
    _rule(
        "Exclusivity", "high", "one party is bound to the other alone",
        anchors="exclusiv|requirements|sole|other than|any other",
        cue=(
            r"(?:grant|appoint|engage|retain|designat|licen[sc]e|accept|have|be|is|are)\w*\b…\bexclusive(?:ly)?,? (?:\([^)]*\),? )?"
            r"(?:\w+[,-]? ){0,4}(?:right|licen[sc]e|distribut|basis|supplier|provider|agent|dealer|territor|sponsor|sell"
            r"|market|purchas|represent|manufactur|partner|franchise|reseller|advis|vendor|promot)",
            r"(?:purchase|obtain|buy|source|supply|sell|deal|supplied|acquire|use|order)\w*\b…exclusively (?:from|with|to|for|through)",
            r"all (?:of )?(?:its|their|the) (?:\w+ ){0,3}requirements (?:for|of)…from",
            rf"\b(?:shall|will|agrees?|may) not…(?:purchase|obtain|sell|licen[sc]e|appoint|grant|enter into|supply|buy)\b…"
            r"(?:from|to|with|by)\b (?:any|another) (?:\w+ ){0,3}(?:other than|except)",
            r"(?:shall|will) be…(?:sole|exclusive) and (?:sole|exclusive) (?:supplier|distribut|provider|agent)",
            r"exclusivity (?:period|obligation|right|provision|restriction)s?|exclusive (?:territory|dealing)",
        ),
        unless=(r"non\W*exclusiv|\bno exclusiv|not (?:an |be )?exclusiv|exclusive (?:jurisdiction|venue|remed|property|owner|control"
                r"|responsib|use of|agreement|statement|purpose|judgment|discretion|forum|liabilit|benefit|economic|title)|exclusive of"
                r"|exclusive right, title|owned|owns|infring|arbitrat|prosecut|\bwhereas\b|goodwill|courts?\b|indemnif|copyright act"
                r"|confidential information|defen[sd]|right to (?:bring|control|settle)|terminate",),
        milder=(r"\bnon-?exclusive",),
    ),
    _rule(
        "No-Solicit Of Employees", "medium", "a party may not hire the other's people",
        anchors="solicit|hire|recruit|entice|seek to employ|offer of employment|induce|offer employment",
        cue=(
            rf"{NOT}…\b(?:solicit|hire|employ|recruit|induce|entice|offer|engage|encourage|persuade|attempt)\w*\b…"
            r"(?:employees?|personnel|staff|employed|employment|contractors?|consultants?)\b",
            r"\bnon-? ?solicitation of employees|no[- ]hire\b",
        ),
        unless=(r"works? (?:made )?for[- ]hire|felony|obligation, to hire|equal|discriminat|labor|broker|finder|bribe|fees?\b|union|insurance|subscri",),
        worse=(r"years|\bhire\b",),
    ),
    _rule(
        "No-Solicit Of Customers", "medium", "a party may not approach the other's customers",
        anchors="solicit|divert|entice|induce|interfere|circumvent",
        cue=(
            rf"{NOT}…\b(?:solicit|divert|entice|induce|circumvent|target|interfere|call (?:up)?on)\w*\b…"
            r"\b(?:customers?|clients?|accounts|subscribers?|patients|policyholders?|suppliers|business of|contracts?)\b",
        ),
        unless=(r"employees? of…only|general solicitation",),
        worse=(r"years",),
    ),
    _rule(
        "Non-Disparagement", "low", "a party may not speak ill of the other",
        anchors="disparag|defam|denigrat|speak ill|reflect adversely|reflects adversely",
        cue=(
            rf"{NOT}…(?:disparag|defam(?:e|ing)|denigrat|speak ill|reflects? adversely)",
            r"non-? ?disparagement",
        ),
        unless=(r"content|obscene|pornograph|libel",),
    ),
    _rule(
        "Rofr/Rofo/Rofn", "medium", "the other side must be asked first",
        anchors="first refusal|first offer|first negotiation|first right|first opportunity|rofr|rofo|rofn|right of first",
        cue=(
            r"rights? of first (?:refusal|offer|negotiation|opportunity|negotiate)|first refusal|\brof[ron]\b",
            r"first (?:right|option|opportunity) (?:to|of) (?:\w+ ){0,3}(?:purchas|negotiat|acquir|offer|licen|match|refus|participat|substitut|enter|buy)",
            r"right of first",
        ),
        unless=(r"\b(?:no|not)\b…(?:subject to|any|grant)…(?:preemptive|pre-emptive)|preemptive rights?|free (?:and clear )?of",),
    ),
    # ── who may leave, who may come ──────────────────────────────────────────────────────────
    _rule(
        "Termination For Convenience", "medium", "the other side may leave without a reason",
        anchors="terminat|cancel",
        cue=(
            rf"(?:{MAY})…\b(?:terminated?|cancel(?:l?ed)?)\b…(?:without cause|with or without|for (?:its |their )?convenience"
            r"|for any (?:or no )?reason|without…reason|at any time|sole discretion|(?:its|their|sole) (?:option|election|convenience)"
            r"|no reason)",
            rf"(?:at any time|without cause|for any reason)…(?:{MAY})…(?:terminate|cancel)",
            rf"(?:{MAY}) (?:terminate|cancel) (?:this|the|its) (?:\w+ ){{1,3}}(?:at any time |without cause |effective )?(?:by|upon|on|with|after|at)\b"
            r"(?:(?!breach|default|fail|cure)[\s\S]){0,80}?(?:days?|months?|weeks?|notice)",
            r"(?:agreement|contract) may be (?:terminated|cancel(?:l?ed))…(?:by (?:either|any|the|\w+) ?(?:party)?)…(?:(?:days?|months?)['’]? (?:prior |advance )?(?:written )?notice|at any time)",
        ),
        sure=(
            rf"(?:{MAY})…\b(?:terminated?|cancel(?:l?ed)?) (?:this|the) (?:agreement|contract)…(?:without cause|with or without cause"
            r"|for (?:its |their )?convenience|for any (?:reason|or no reason))",
            r"terminat\w+ for (?:its )?convenience|termination without cause",
        ),
        unless=(r"breach|default|insolven|bankrupt|\bfail|\bif\b|in the event|change (?:of|in) control|surviv|force majeure|unless"
                r"|violat|cure|receiver|material adverse|occurrence|pursuant to section|in accordance with section|ceases|as follows",),
        worse=(r"immediate|sole discretion|\b(?:ten|fifteen|thirty|10|15|30)\b",),
        milder=(r"\b(?:one hundred|180|six|twelve|ninety|90)\b",),
    ),
    _rule(
        "Change Of Control", "medium", "a sale of the company touches the contract",
        anchors="control|ownership|substantially all|merge|acqui",
        cue=(
            r"change (?:of|in) (?:the )?(?:control|ownership)…..(?:terminat|consent|assign|notice|notify|transfer|option|right|approval)",
            r"(?:terminat|consent|notice|notify|assign|right|event of)…..change (?:of|in) (?:the )?(?:control|ownership)",
            r"terminat…(?:merge[rds]|sale of (?:all or )?substantially all|acquired by|acqui(?:res|sition of)|ownership change)",
            r"(?:merge[rds]|sale of (?:all or )?substantially all|acquired by)…(?:deemed|constitute)…(?:assign|transfer)",
            r"(?:deemed|constitute)…(?:assign|transfer)…(?:merge[rds]|change of control|substantially all|majority)",
        ),
        unless=(r"beyond…control|control group|quality control",),
        worse=(r"terminat",),
    ),
    _rule(
        "Anti-Assignment", "low", "the contract cannot be passed on freely",
        anchors="assign|transfer",
        cue=(
            rf"{NOT}…\bassign(?:s|ed|able|ment)?\b…(?:agreement|contract|rights?|obligations?|interest|dut(?:y|ies)|hereunder"
            r"|licen[sc]e|herein|consent|part|party)",
            rf"(?:agreement|contract|rights|obligations|dut(?:y|ies)|interest|licen[sc]e|franchise)…{NOT}…\bassign(?:ed|able)?\b",
            r"assign(?:ed|ment|s)?\b…(?:without|prior|written)…(?:consent|approval)",
            r"assignment…(?:in violation|without)…(?:void|null)",
            rf"{NOT}…\btransfer…(?:this agreement|rights? (?:or|and) obligations?|franchise)…consent",
        ),
        unless=(r"assign (?:personnel|employees|staff)|duties assigned|assigned to (?:it|perform)",),
        worse=(r"operation of law|change (?:of|in) control|sole discretion|merger",),
    ),
    _rule(
        "Post-Termination Services", "low", "duties go on after the end",
        anchors="terminat|expir",
        cue=(
            r"(?:upon|after|following|on|event of|effect of|case of|date of|time of)\b…(?:termination|expiration|expiry)…"
            rf"(?:{MUST}|may|right to|entitled)…\b(?:continue|sell[- ]off|transition|assist|cooperat\w+|inventory|wind|fulfil\w*|honou?r"
            r"|repurchase|complete|perform|provide|dispose|deliver|sell)\b",
            r"(?:continue|sell|provide|support)…(?:for|during)…(?:days?|months?|years?)…(?:after|following) (?:the )?(?:\w+ ){0,3}(?:termination|expiration)",
            r"transition (?:services|assistance|period|plan)|wind[- ]?down|sell-?off period|termination assistance",
        ),
        unless=(r"confidential information|return (?:or|and) destroy|surviv|warrant(?:y|ies) (?:shall|period)|insurance|expiration of (?:such|said)"
                r"|will not|compete|force majeure|govern",),
    ),
    # ── ideas and licences ───────────────────────────────────────────────────────────────────
    _rule(
        "Ip Ownership Assignment", "high", "ownership of what is made goes to one side",
        anchors="assign|for hire|property of|owned by|owner of|own all|vest",
        cue=(
            rf"(?:hereby|shall|will|agrees? to|does|irrevocably)\b…\bassigns?\b…(?:right,? title|rights,? title|title and interest|intellectual"
            r"|copyright|patent|invention|trademark|work product|developments|improvement|ownership)",
            r"works? (?:made )?for[- ]hire",
            r"(?:developed|created|made|conceived|prepared|work product|deliverables|improvements|inventions|results|modifications|derivative works)\b…"
            r"(?:shall|will) (?:be(?:come)?|belong|vest)…(?:property of|owned (?:solely |exclusively )?by|belong to|vest in)",
        ),
        unless=(rf"{NOT}…assign|accounts receivable|successors|invention assignment agreements with|its employees…agreement"
                r"|has assigned|been assigned",),
    ),
    _rule(
        "Joint Ip Ownership", "medium", "what is made belongs to both",
        anchors="joint",
        cue=(r"jointly[- ]own|joint(?:ly)? (?:owner|property)|joint ownership|owned jointly|joint (?:invention|patent|intellectual|technology|work product)s?",),
        unless=(r"joint venture",),
    ),
    _rule(
        "License Grant", "low", "rights to use are given away",
        anchors="grant",
        cue=(
            rf"\bgrants?\b…(?:{LICENCE}|right(?:s)? (?:and|to (?:use|access|display|sell|market|distribute|resell|reproduce|promote|operate|manufacture|link)))",
            rf"{LICENCE} (?:\w+ ){{0,4}}(?:is|are) (?:hereby )?granted|is (?:hereby )?granted…{LICENCE}",
        ),
        unless=(rf"{NOT}…(?:grant|construed|licen[sc]e|right)|grants? (?:of )?(?:options?|stock|restricted|shares)|registration rights"
                r"|security interest|governmental|regulatory|licen[sc]es? and permits|power of attorney|lien",),
        worse=(r"\bexclusive|sublicen[sc]",),
    ),
    _rule(
        "Non-Transferable License", "low", "rights to use cannot be passed on",
        anchors="transferable|transferrable|non-assignable|nonassignable|sublicens|sub-licens|sublicenc",
        cue=(
            rf"non-? ?(?:transferr?able|assignable|sublicen[sc]e?able)…(?:{LICENCE}|rights?)|(?:{LICENCE}|rights?)…non-? ?(?:transferr?able|assignable|sublicen[sc]e?able)",
            rf"(?:{LICENCE}|rights?)…not (?:be )?(?:transferr?able|sublicen[sc]e?able)",
            rf"(?:{NOT}|without)…(?:right|entitled|may) (?:\w+ )?(?:to|of)? ?(?:grant )?sub-?licen[sc]|\bnot (?:\w+,? ){{0,3}}sub-?licen[sc]e\b",
        ),
        unless=(r"shares|warrants? (?:is|are)|stock|sublicensees?\b",),
    ),
    _rule(
        "Irrevocable Or Perpetual License", "high", "rights to use can never be taken back",
        anchors="perpetu|irrevocabl",
        cue=(
            rf"(?:perpetual|irrevocable)\b…(?:{LICENCE}|rights? (?:to|and)|right\b)|{LICENCE}…\b(?:perpetual|irrevocable|in perpetuity|perpetuity)",
        ),
        unless=(r"letters? of credit|proxy|power of attorney|attorney-in-fact|jurisdiction|venue|guarant|waive|terminat|instruction|undertaking|payment",),
        worse=(),
    ),
    _rule(
        "Source Code Escrow", "medium", "source code lies with a third party",
        anchors="escrow",
        cue=(r"source (?:code|materials)…..escrow|escrow…..source (?:code|materials)|escrow agent…(?:software|technology|deposit materials)|technology escrow|release from escrow",),
        unless=(r"escrow account…(?:fund|purchase price|subscri)",),
    ),
    _rule(
        "Covenant Not To Sue", "medium", "rights of the other may not be challenged",
        anchors="contest|challeng|attack|dispute|oppose|impugn|not to sue|not sue|adversely affect|release",
        cue=(
            rf"{NOT}…\b(?:contest|challeng|attack|disput|oppos|question|impugn|impair)\w*\b…(?:validity|ownership|title|enforceab|registra|\bmarks?\b"
            r"|trade ?marks?|patents?|intellectual property|proprietary|rights? (?:of|in|to))",
            r"covenants?…not (?:to )?…\bsue\b|not (?:to )?sue\b",
            rf"{NOT} (?:do|take|engage|cause|commit)…adversely affect…(?:marks?|trade ?marks?|validity|intellectual)",
            r"(?:hereby|forever) (?:\w+ ){0,4}releases?…(?:claims?|liabilit|actions)",
        ),
        unless=(r"dispute resolution|good faith dispute|disputed (?:amount|invoice)|no (?:claim|action|suit|proceeding|litigation)s?\b…(?:pending|threaten)"
                r"|knowledge|has (?:not )?received",),
    ),
    # ── duties along the way ─────────────────────────────────────────────────────────────────
    _rule(
        "Audit Rights", "low", "the other side may look into books or premises",
        anchors="audit|inspect|examin",
        cue=(
            rf"(?:{MAY}|permit|allow|access|upon|entitled|open|available|subject)\b…\b(?:audit|inspect|examin)\w*\b…(?:books|records|accounts|facilit|premises"
            r"|ledger|documents|locations?|operations|offices|compliance|plant|manufactur)",
            r"(?:books|records|accounts|facilit\w+|premises)\b…(?:available|open|subject|permit|access|right)…\b(?:audit|inspect|examin|review)",
            r"right (?:to|of) (?:audit|inspect)|audit rights?|(?:may|shall) (?:conduct|perform|cause)…\baudits?\b",
            r"(?:access|available)…(?:books|records)…(?:request|business hours|notice)",
        ),
        unless=(r"audited financial statements|audit committee|inspector|accept(?:ance)?…(?:goods|shipment)|has been audited|stockholder|shareholders? list",),
        worse=(r"at any time|without (?:prior )?notice|unlimited",),
    ),
    _rule(
        "Warranty Duration", "low", "a warranty runs out, or binds, for a fixed time",
        anchors="warrant",
        cue=(
            r"warrant(?:s|y|ies|ed)?\b…(?:for|during|within) (?:a |the )?(?:minimum )?(?:\w+ )?(?:period|term)? ?(?:of )?(?:\w+ )?\(?[\d\[*]+[\])*]* ?\)? ?-?(?:calendar )?(?:days?|months?|years?)",
            r"warranty period|period of (?:the )?warranty|warrant(?:y|ies)…(?:expire|valid for|extend|remain in effect|commence)",
            r"(?:for|within) (?:a period of )?(?:\w+ )?\(?\d+\)? ?(?:days?|months?|years?)…(?:after|from|following)…(?:delivery|acceptance|shipment|installation)…warrant",
        ),
        unless=(r"warrants? (?:to purchase|exercis|holder|agent|certificate|shares)|common stock|represents and warrants that…surviv|surviv|underwrit",),
    ),
    _rule(
        "Insurance", "low", "cover must be bought and kept",
        anchors="insurance|insured",
        cue=(
            r"(?:maintain|obtain|carry|carries|procure|keep|take out|provide|secure|effect|purchase|have|arrange|furnish|subscribe)\w*\b…\b(?:insurance|insured)\b",
            r"insurance…(?:not less than|no less than|minimum|in the amount|at least|\$|shall be maintained|limits?)",
            r"additional(?:ly)? (?:named )?insureds?|certificates? of insurance|named as an? (?:additional )?insured",
        ),
        unless=(r"insurance (?:law|act|commission|department)|title insurance|deposit insurance|fdic|life insurance polic|health insurance portab"
                r"|unemployment insurance|social (?:security|insurance)|insurance benefits|employee benefit|sale of insurance|insurance products|no (?:extra )?insurance|has been no|insurance carriers",),
    ),
)  # fmt: skip

CATEGORIES = tuple(rule.category for rule in RULES)
