"""Rules for clauses about money, freedom to do business, and who may leave or come."""

from __future__ import annotations

from rule import MAY, MUST, NOT, OR_NOT, rule

TRADE = (
    # ── money that may be owed ───────────────────────────────────────────────────────────────
    rule(
        "Uncapped Liability", "high", "some liability has no limit",
        anchors="liab",
        cue=(
            rf"{OR_NOT}…(?:indemni|confidential|negligence|misconduct|fraud|breach|infring"
            rf"|section"
            r"|article|obligation|claim)…..(?:no event|no circumstance|no party|neither|not be"
            r"|nor|none)\b…(?:liable|liability|exceed)",
            r"(?:limitations?|exclusions?|caps?)\b…(?:liab|damages|section|set forth|foregoing"
            r"|above)…\bnot (?:be )?(?:apply|applicable|available|limit)\b|inapplicable",
            r"(?:limitations? (?:of|on) (?:liability|damages)|liability cap)…(?:not"
            r"|inapplicable)",
            r"none of…limitations? (?:of|on) liability",
            r"(?:nothing|no provision) (?:in|contained|herein)…(?:limit|exclude|restrict)s?\b"
            r"…liabilit",
            r"liab…(?:unlimited|without limit(?:ation)? as to amount)",
        ),
        milder=(r"required by law|by applicable law",),
    ),
    rule(
        "Cap On Liability", "medium", "what can be recovered is limited",
        anchors="liab|damages|remed",
        cue=(
            rf"(?:{NOT}|under no)…(?:liable|liability|responsible|obligat)…..(?:consequential"
            r"|incidental|indirect|special|punitive|exemplary|lost profit|loss of (?:profit"
            r"|revenue|business)|exceed|in excess of|greater than|more than)",
            r"liabilit(?:y|ies)\b…(?:limited to|not exceed|exceed|be capped)",
            r"(?:maximum|aggregate|total) (?:\w+ )?liability…(?:limited|exceed|be|is)\b",
            r"(?:waive|disclaim|exclude)s?\b…(?:consequential|incidental|punitive|indirect)",
            r"(?:no|neither) (?:party|action|claim)…(?:bring|brought|assert)…(?:more than"
            r"|later than|after)…(?:years?|months?)",
        ),
        worse=(r"\b(?:sole and exclusive|fees (?:actually )?paid|amounts? (?:actually )?(?:paid"
               r"|received))",),
    ),
    rule(
        "Liquidated Damages", "high", "a fixed sum falls due on breach or on ending early",
        anchors="liquidated|termination fee|termination charge|penalt|cancellation fee|break-up fee",
        cue=(
            r"(?:as|be|pay|of|deemed|and) (?:\w+ ){0,3}liquidated damages?|liquidated damages?…"
            r"(?:shall|will|pay|at|of|in the)",
            r"(?:pay|receive|entitled to)…(?:early )?(?:termination|cancellation|break-up) "
            r"(?:fee|charge|payment)s?",
            r"(?:termination|cancellation) (?:fee|charge)s?…(?:equal|\$|paid|payable|amount)",
            r"pay…(?:as|a) (?:a )?penalty (?:of|in|equal|for)|pay…as a penalty",
        ),
        unless=(r"\bnot…(?:liable|subject|pay|incur|any)…(?:penalt|termination fee|liquidated)",
                r"without…(?:penalt|termination fee)", r"civil penalt|penalties of perjury|tax"),
    ),
    rule(
        "Minimum Commitment", "medium", "a minimum must be bought, paid or done whatever happens",
        anchors="minimum|at least|no less than|not less than|no fewer than|shortfall|quota",
        cue=(
            r"minimum (?:\w+ ){0,3}(?:purchase|order|royalt|quantit|volume|commitment|guarante"
            r"|payment|sales|requirement|amount|spend|fee|revenue|annual|number of|units)",
            r"(?:purchase|order|buy|pay|sell|guarantee|spend|take|deliver|achieve)s?\b…"
            r"(?:a minimum|minimum of|at least|no(?:t)? less than|no fewer than) (?:an? )?"
            r"(?:\w+ ){0,4}(?:\(?\$|[\d\[*]|percent|units?\b)",
        ),
        unless=(r"insur|notice|coverage|net worth|minimum wage|days(?:'|\b)…(?:prior|written"
                r"|advance)",
                r"premium|retain|audit|records|rating|shareholder|stockholder|does not include"
                r"|not (?:be )?subject to|has the meaning|no minimum|minimum requirements for"
                r"|days after",),
        worse=(r"shortfall|fails? to|terminat",),
        milder=(r"reasonable efforts|best efforts|endeavou?r",),
    ),
    rule(
        "Revenue/Profit Sharing", "medium", "a share of revenue or profit must be paid away",
        anchors="royalt|revenue|commission|net sales|profit|gross sales|percent|%",
        cue=(
            r"royalt(?:y|ies)…(?:percent|%|equal to|at the rate|of net|rate)",
            r"(?:pay|receive|entitled|retain|remit|share)s?\b…(?:percent|%)\)?…(?:of|on) "
            r"(?:\w+ ){0,5}(?:revenue|net sales|gross sales|sales|profits?|receipts|proceeds"
            r"|income|fees|commissions?|assets|purchase price|gross|net)\b",
            r"(?:revenue|profit|fee)s?[- ]?(?:shar(?:e|ing)|split)",
            r"\bshared?\b…(?:revenues?|profits?|fees)\b|(?:revenues?|profits?|fees)\b…\bshared\b",
            r"(?:fee|compensation|payment|share)s?\b…(?:percent|%)\)?\]? of (?:\w+'?s? ){0,5}"
            r"(?:revenue|sales|profits?|receipts|proceeds|income|assets)",
            r"pay…\bcommissions?\b…(?:percent|%|equal|of|on)",
        ),
        unless=(r"underpa|discrepan|interest at|late payment|overdue|past due|withh[eo]ld|\btax"
                r"|no responsib|not be (?:liable|entitled)|refrain|shareholder|shares? of",),
    ),
    # ── freedom to do business ───────────────────────────────────────────────────────────────
    rule(
        "Non-Compete", "high", "a party may not compete",
        anchors="compet",
        cue=(
            rf"{NOT}…..\b(?:engage|compete|own|market|sell|develop|distribute|manufactur\w+"
            r"|promot\w+|offer|operate|participate|carry|interest|represent|acquire|invest"
            r"|assist|provide|enter|licen[sc]e|deal|handle|act|commerciali[sz]e|conduct|solicit"
            r"|use|purchase|accept)…\bcompet(?:e|es|ing|itive|itors?)\b",
            r"\bnot (?:to )?(?:directly or indirectly )?compete\b|covenants? not to compete"
            r"|\bnon-? ?compet(?:e|ition)\b",
        ),
        unless=(r"competitive(?:ly)? (?:bid|disadvantage|pric|advantage|process|basis|harm"
                r"|market|rates?)|unfair(?:ly)? compet|competent|competenc|(?:nothing"
                r"|no provision)…(?:restrict|prevent|prohibit|limit|preclude)|confidential"
                r"|disclos|not (?:be )?(?:restrict|prohibit|prevent|preclude)|assign"
                r"|represents? (?:and warrants? )?that|terminat|anti-?trust|competing claim|free"
                r"(?:dom)? to|compete fairly",),
        worse=(r"years?|after (?:the )?(?:termination|expiration)|thereafter",),
        milder=(r"without the (?:prior )?(?:written )?(?:consent|approval)",),
    ),
    rule(
        "Exclusivity", "medium", "one party is bound to the other alone",
        anchors="exclusiv|requirements|sole|other than|any other",
        cue=(
            r"(?:grant|appoint|engage|retain|designat|licen[sc]e|accept|have|be|is|are)\w*\b"
            r"…\bexclusive(?:ly)?,? (?:\([^)]*\),? )?(?:\w+[,-]? ){0,4}(?:right|licen[sc]e"
            r"|distribut|basis|supplier|provider|agent|dealer|territor|sponsor|sell|market"
            r"|purchas|represent|manufactur|partner|franchise|reseller|advis|vendor|promot)",
            r"(?:purchase|obtain|buy|source|supply|sell|deal|supplied|acquire|use|order)\w*\b"
            r"…exclusively (?:from|with|to|for|through)",
            r"all (?:of )?(?:its|their|the) (?:\w+ ){0,3}requirements (?:for|of)…from",
            r"\b(?:shall|will|agrees?|may) not…(?:purchase|obtain|sell|licen[sc]e|appoint|grant"
            r"|enter into|supply|buy)\b…(?:from|to|with|by)\b (?:any|another) (?:\w+ ){0,3}"
            r"(?:other than|except)",
            r"(?:shall|will) be…(?:sole|exclusive) and (?:sole|exclusive) (?:supplier|distribut"
            r"|provider|agent)",
            r"exclusivity (?:period|obligation|right|provision|restriction)s?|exclusive "
            r"(?:territory|dealing)",
        ),
        unless=(r"non\W*exclusiv|\bno exclusiv|not (?:an |be )?exclusiv|exclusive "
                r"(?:jurisdiction|venue|remed|property|owner|control|responsib|use of|agreement"
                r"|statement|purpose|judgment|discretion|forum|liabilit|benefit|economic|title)"
                r"|exclusive of|exclusive right, title|owned|owns|infring|arbitrat|prosecut"
                r"|\bwhereas\b|goodwill|courts?\b|indemnif|copyright act"
                r"|confidential information|defen[sd]|right to (?:bring|control|settle)"
                r"|terminate",),
        worse=(r"worldwide|\bsole|all (?:of )?(?:its|their)|(?:shall|will|may) not|years|perpetual",),
    ),
    rule(
        "No-Solicit Of Employees", "medium", "a party may not hire the other's people",
        anchors="solicit|hire|recruit|entice|seek to employ|offer of employment|induce|offer employment",
        cue=(
            rf"{NOT}…\b(?:solicit|hire|employ|recruit|induce|entice|offer|engage|encourage"
            r"|persuade|attempt)\w*\b…(?:employees?|personnel|staff|employed|employment"
            r"|contractors?|consultants?)\b",
            r"\bnon-? ?solicitation of employees|no[- ]hire\b",
        ),
        unless=(r"works? (?:made )?for[- ]hire|felony|obligation, to hire|equal|discriminat"
                r"|labor|broker|finder|bribe|fees?\b|union|insurance|subscri",),
        worse=(r"years|\bhire\b",),
    ),
    rule(
        "No-Solicit Of Customers", "medium", "a party may not approach the other's customers",
        anchors="solicit|divert|entice|induce|interfere|circumvent",
        cue=(
            rf"{NOT}…\b(?:solicit|divert|entice|induce|circumvent|target|interfere"
            r"|call (?:up)?on)\w*\b…\b(?:customers?|clients?|accounts|subscribers?|patients"
            r"|policyholders?|suppliers|business of|contracts?)\b",
        ),
        unless=(r"employees? of…only|general solicitation",),
        worse=(r"years",),
    ),
    rule(
        "Non-Disparagement", "low", "a party may not speak ill of the other",
        anchors="disparag|defam|denigrat|speak ill|reflect adversely|reflects adversely",
        cue=(
            rf"{NOT}…(?:disparag|defam(?:e|ing)|denigrat|speak ill|reflects? adversely)",
            r"non-? ?disparagement",
        ),
        unless=(r"content|obscene|pornograph|libel",),
    ),
    rule(
        "Rofr/Rofo/Rofn", "medium", "the other side must be asked first",
        anchors="first refusal|first right|first option|first opportunity|right of first|rofr|rofo|rofn",
        cue=(
            r"rights? of first (?:refusal|offer|negotiation|opportunity|negotiate)|first refusal"
            r"|\brof[ron]\b",
            r"first (?:right|option|opportunity) (?:to|of) (?:\w+ ){0,3}(?:purchas|negotiat"
            r"|acquir|offer|licen|match|refus|participat|substitut|enter|buy)",
            r"right of first",
        ),
        unless=(r"\b(?:no|not)\b…(?:subject to|any|grant)…(?:preemptive|pre-emptive)"
                r"|preemptive rights?|free (?:and clear )?of",),
    ),
    # ── who may leave, who may come ──────────────────────────────────────────────────────────
    rule(
        "Termination For Convenience", "medium", "the other side may leave without a reason",
        anchors="terminat|cancel",
        cue=(
            rf"(?:{MAY})…\b(?:terminated?|cancel(?:l?ed)?)\b…(?:without cause|with or without"
            r"|for (?:its |their )?convenience|for any (?:or no )?reason|without…reason"
            r"|at any time|sole discretion|(?:its|their|sole) (?:option|election|convenience)"
            r"|no reason)",
            rf"(?:at any time|without cause|for any reason)…(?:{MAY})…(?:terminate|cancel)",
            rf"(?:{MAY}) (?:terminate|cancel) (?:this|the|its) (?:\w+ ){{1,3}}(?:at any time "
            r"|without cause |effective )?(?:by|upon|on|with|after|at)\b(?:(?!breach|default"
            r"|fail|cure)[\s\S]){0,80}?(?:days?|months?|weeks?|notice)",
            r"(?:agreement|contract) may be (?:terminated|cancel(?:l?ed))…(?:by (?:either|any"
            r"|the|\w+) ?(?:party)?)…(?:(?:days?|months?)['’]? (?:prior |advance )?"
            r"(?:written )?notice|at any time)",
        ),
        sure=(
            rf"(?:{MAY})…\b(?:terminated?|cancel(?:l?ed)?) (?:this|the) (?:agreement|contract)"
            r"…(?:without cause|with or without cause|for (?:its |their )?convenience|for any "
            r"(?:reason|or no reason))",
            r"terminat\w+ for (?:its )?convenience|termination without cause",
        ),
        unless=(r"breach|default|insolven|bankrupt|\bfail|\bif\b|in the event|change (?:of"
                r"|in) control|surviv|force majeure|unless|violat|cure|receiver|material adverse"
                r"|occurrence|pursuant to section|in accordance with section|ceases|as follows",),
        worse=(r"immediate|sole discretion|\b(?:ten|fifteen|thirty|10|15|30)\b",),
        milder=(r"\b(?:one hundred|180|six|twelve|ninety|90)\b",),
    ),
    rule(
        "Change Of Control", "medium", "a sale of the company touches the contract",
        anchors="control|ownership|substantially all|merge|acqui",
        cue=(
            r"change (?:of|in) (?:the )?(?:control|ownership)…..(?:terminat|consent|assign"
            r"|notice|notify|transfer|option|right|approval)",
            r"(?:terminat|consent|notice|notify|assign|right|event of)…..change (?:of|in) "
            r"(?:the )?(?:control|ownership)",
            r"terminat…(?:merge[rds]|sale of (?:all or )?substantially all|acquired by|acqui"
            r"(?:res|sition of)|ownership change)",
            r"(?:merge[rds]|sale of (?:all or )?substantially all|acquired by)…(?:deemed"
            r"|constitute)…(?:assign|transfer)",
            r"(?:deemed|constitute)…(?:assign|transfer)…(?:merge[rds]|change of control"
            r"|substantially all|majority)",
        ),
        unless=(r"beyond…control|control group|quality control",),
        worse=(r"terminat",),
    ),
    rule(
        "Anti-Assignment", "low", "the contract cannot be passed on freely",
        anchors="assign|transfer",
        cue=(
            rf"{NOT}…\bassign(?:s|ed|able|ment)?\b…(?:agreement|contract|rights?|obligations?"
            r"|interest|dut(?:y|ies)|hereunder|licen[sc]e|herein|consent|part|party)",
            r"(?:agreement|contract|rights|obligations|dut(?:y|ies)|interest|licen[sc]e"
            rf"|franchise)…{NOT}…\bassign(?:ed|able)?\b",
            r"assign(?:ed|ment|s)?\b…(?:without|prior|written)…(?:consent|approval)",
            r"assignment…(?:in violation|without)…(?:void|null)",
            rf"{NOT}…\btransfer…(?:this agreement|rights? (?:or|and) obligations?|franchise)"
            r"…consent",
        ),
        unless=(r"assign (?:personnel|employees|staff)|duties assigned|assigned to (?:it"
                r"|perform)",),
        worse=(r"operation of law|change (?:of|in) control|sole discretion|merger",),
    ),
    rule(
        "Post-Termination Services", "low", "duties go on after the end",
        anchors="terminat|expir",
        cue=(
            r"(?:upon|after|following|on|event of|effect of|case of|date of|time of)\b…"
            r"(?:termination|expiration|expiry)…"
            rf"(?:{MUST}|may|right to|entitled)…\b(?:continue|sell[- ]off|transition|assist"
            r"|cooperat\w+|inventory|wind|fulfil\w*|honou?r|repurchase|complete|perform|provide"
            r"|dispose|deliver|sell)\b",
            r"(?:continue|sell|provide|support)…(?:for|during)…(?:days?|months?|years?)…(?:after"
            r"|following) (?:the )?(?:\w+ ){0,3}(?:termination|expiration)",
            r"transition (?:services|assistance|period|plan)|wind[- ]?down|sell-?off period"
            r"|termination assistance",
        ),
        unless=(r"confidential information|return (?:or|and) destroy|surviv|warrant(?:y|ies) "
                r"(?:shall|period)|insurance|expiration of (?:such|said)|will not|compete"
                r"|force majeure|govern",),
    ),
)  # fmt: skip
