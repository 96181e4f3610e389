"""The first screen of RESULTS.md: what is asked of a model, how pictures are counted, and a line per finding.

Every line is put together from the same verdicts and entries as the sections below it. A line names what was asked and
gives the verdict with its numbers; it claims nothing of its own, so it is true whatever the tables say.
"""

from collections.abc import Callable, Sequence
from typing import Any

from recombine.claims.beyond.entries import Contrast, Entry
from recombine.claims.tables import FAR, NAMED, Measure, StudyTable
from recombine.claims.tokenizer_ceilings import ANCHOR as CEILINGS
from recombine.claims.verdicts import WORDS, Verdict
from recombine.claims.why.sections import anchor
from recombine.report.words import join, percent, points

TITLE = "In brief"
MODELS = (
    "MaskGIT, GIVT and MAR fill in hidden tokens, as codes, as mixtures of Gaussians and by a small flow; DiT denoises "
    "all tokens at once; JEPA is a loss that is added to MaskGIT and predicts features."
)

FAR_OFF = 0.25  # a difference to what was published that a reader should not have to find
TOLD = "Full tells values, quantized classes; dropout withholds each factor at times."
LOUD = "A class is told by a learned vector: the larger it begins, the louder."


def brief_lines(verdicts: Sequence[Verdict], entries: Sequence[Entry], of_tokens: str = "") -> list[str]:
    """A list of what was found, less what was not asked; `of_tokens` says what tokens can show."""
    told = {verdict.id: verdict for verdict in verdicts if verdict.finding and verdict.verdict != "untested"}
    found = {entry.id: entry for entry in entries if entry.found is not None}
    lines: list[str] = []

    def add(title: str, one: Verdict | Entry | None, text: Callable[[Any], str]) -> None:
        if one is not None:
            lines.append(f"**{title}** {_chips([one])}. {text(one)}")

    add("What a model predicts", told.get("C1"), _shares)
    add("What tokens DiT predicts", told.get("C2"), _shares)
    if of_tokens or "B6" in found:
        lines.append(_tokenizers(found.get("B6"), of_tokens))
    add("Categories or vectors", found.get("B12"), _in_brief)
    add("How loudly it is told its factors", found.get("B9"), lambda entry: f"{LOUD} {_changes(entry)}")
    add("What it is told", told.get("C3"), lambda verdict: f"{TOLD} {_shares(verdict)}")
    add("What is withheld from it at times", found.get("B11"), _each)
    add("Factors that go together in what it sees", found.get("B2"), _in_brief)
    add("How many combinations it is trained on", found.get("B4"), _in_brief)
    add("Which combinations it is trained on", found.get("B13"), _in_brief)
    jepa: list[Verdict | Entry] = [told["C4"]] if "C4" in told else []
    jepa += [found[one] for one in ("B7", "B10") if one in found]
    if jepa:
        numbers = f" {_difference(told['C4'])}" if "C4" in told else ""
        numbers += _by_the_name(found["B7"]) if "B7" in found else ""
        lines.append(f"**A JEPA loss** {_chips(jepa)}.{numbers}")
    planes = [verdict for verdict in told.values() if verdict.id.startswith("F")]
    if planes:
        lines.append(f"**Decoders that are told x and y.** {_by_word(planes)}")
    add("Generators in a decoder's place", found.get("B8"), _in_brief)
    return [f"## {TITLE}", "\n".join(f"- {line}" for line in lines)] if lines else []


def _chips(asked: Sequence[Verdict | Entry]) -> str:
    """ "([C4](#...) not reproduced, [B7](#...) did not help)"."""
    words = [f"[{one.id}](#{anchor(one.id)}) {one.verdict if isinstance(one, Verdict) else one.word}" for one in asked]
    return f"({', '.join(words)})"


def _in_brief(entry: Entry) -> str:
    assert entry.found is not None
    return entry.found.in_brief


def _shares(verdict: Verdict) -> str:
    """What each arm has of level-2, by both counts, beside what was published of it."""
    found = verdict.finding
    assert found is not None
    steps = {one.arm.steps for one in found.shown}
    after = f" after {steps.pop():,} steps" if len(steps) == 1 else ""
    probed = NAMED in found.study.columns
    published = all(one.published is not None for one in found.shown)
    text, apart = [], {}
    for one in found.shown:
        named = one.arm.share(Measure(NAMED), one.arm.seeds).mean if probed else None
        beside = [f"named right {percent(named)}"] if named is not None else []
        beside += [f"published {percent(one.published)}"] if published and one.published is not None else []
        text.append(f"{one.label} {percent(one.arm.share(Measure(), one.arm.seeds).mean)}")
        text[-1] += f" ({', '.join(beside)})" if beside else ""
        if named is not None and one.published is not None:
            apart[one.label] = abs(named - one.published)
    farthest = max(apart, key=lambda label: apart[label], default="")
    far = ""
    if farthest and apart[farthest] >= FAR_OFF:
        far = f" As the paper counts (named right), {farthest} is farthest from what was published."
    far += f" Counted so, the verdict would be: {verdict.turned}." if verdict.turned else ""
    return f"Right and valid{after}: {', '.join(text)}.{far}{_weaker(verdict)}"


def _changes(entry: Entry) -> str:
    """The span of an entry's comparisons by both counts, and how many are clear."""
    assert entry.found is not None
    text = f"{entry.asked.compares}: right and valid {_span(entry.found.contrasts)}"
    return f"{text}; named right {_span(entry.named)}." if entry.named else f"{text}."


def _tokenizers(entry: Entry | None, of_tokens: str) -> str:
    """What a tokenizer that saw trained combinations only can write, and what a model draws on its tokens."""
    chips = [_chips([entry])[1:-1]] if entry else []
    chips += [f"[ceilings](#{CEILINGS})"] if of_tokens else []
    said = [of_tokens] if of_tokens else []
    if entry is not None and entry.found is not None:
        said.append(entry.found.in_brief or _changes(entry))
    return f"**What its tokenizer has seen** ({', '.join(chips)}). {' '.join(said)}"


def _each(entry: Entry) -> str:
    """The comparisons that an entry's own number is the mean of, one by one."""
    assert entry.found is not None
    own = [one for one in entry.found.contrasts if one.label in entry.found.ours_of]
    after = " Compared when the study had been seen." if entry.found.afterwards else ""
    what = entry.asked.compares if len(own) > 1 else "Level-2"
    return f"{what}: {', '.join(f'{one.label} {one.text}' for one in own)}.{after}"


def _by_the_name(entry: Entry) -> str:
    """Which comparisons are clear by what the probe names right, valid or not."""
    higher = [f"{one.label} {one.text}" for one in entry.named if one.word == "higher"]
    if not higher:
        return ""
    gains = "gains" if len(higher) == 1 else "gain"
    return (
        f" Of B7's {len(entry.named)} comparisons {len(higher)} clearly {gains} by what is named right: {join(higher)}."
    )


def _span(contrasts: Sequence[Contrast]) -> str:
    means = sorted(one.test.mean for one in contrasts)
    clear = sum(one.word in ("higher", "lower") for one in contrasts)
    ends = points(means[0]) if len(means) == 1 else f"{points(means[0])} to {points(means[-1])}"
    return f"{ends} points (clear in {clear} of {len(means)})"


def _difference(verdict: Verdict) -> str:
    """Our number by both counts beside the published one."""
    found, claim = verdict.finding, verdict.claim
    assert found is not None
    texts = [f"right and valid {claim.with_ends(found.ours)}"]
    if verdict.by_probe is not None:
        texts.append(f"named right {claim.with_ends(verdict.by_probe)}")
    if claim.value is not None:
        texts.append(f"published {claim.text(claim.value)}")
    steps = max(one.arm.steps for one in found.shown)
    measure = f"{claim.measure[0].upper()}{claim.measure[1:]}, after {steps:,} steps"
    return f"{measure}: {', '.join(texts)}{claim.unit_text}.{_weaker(verdict)}"


def _weaker(verdict: Verdict) -> str:
    """Which weaker forms of a claim hold, where its core does not."""
    found = verdict.finding
    assert found is not None
    return f" It holds in a weaker form: {join([part.name for part in found.weaker])}." if found.weaker else ""


def _by_word(verdicts: Sequence[Verdict]) -> str:
    """Claims by their verdict: "Reproduced: superposition (F2) ...; partly: ..."."""
    groups = []
    for word in WORDS:
        own = [f"{_small(one.claim.title)} ([{one.id}](#{anchor(one.id)}))" for one in verdicts if one.verdict == word]
        if own:
            groups.append(f"{word}: {join(own)}")
    text = "; ".join(groups)
    return f"{text[0].upper()}{text[1:]}."


def _small(title: str) -> str:
    """A title inside a sentence."""
    return f"{title[0].lower()}{title[1:]}"


def what_is_asked(study: StudyTable | None) -> str:
    """What the models of the objectives study are trained on and asked for; in general words without a study."""
    levels: dict[str, int] = study.finished.part("split").get("levels") or {} if study is not None else {}
    factors = study.finished.part("world").get("factors") or [] if study is not None else []
    if not levels or not factors:
        return (
            "A model is trained on some combinations of factors and asked for others. *Level-1* combinations differ in "
            "one factor from the nearest that it has seen, *level-2* in two."
        )
    names = join([factor["name"] for factor in factors])
    far = [code for code, level in levels.items() if level == FAR]
    words = [", ".join(factor["values"][int(i)] for factor, i in zip(factors, code, strict=True)) for code in far]
    one = f" (here one: {words[0]})" if len(far) == 1 else f" (here {len(far)})"
    trained = sum(level == 0 for level in levels.values())
    seen = {arm.setting("tokenizer.sees") for arm in study.arms} if study is not None else set()
    tokens = " The models' tokenizers have seen all combinations." if seen == {"all"} else ""
    return (
        f"Models are trained on {trained} of {len(levels)} combinations of {names} and asked for the others. *Level-1* "
        f"combinations differ in one factor from the nearest that was trained, *level-2* in two{one}.{tokens}"
    )


def what_counts(study: StudyTable | None) -> str:
    """The two counts, and what the judge makes of real images and of garbage."""
    text = (
        "A picture is *named right* if a classifier, the probe, names every factor as asked: so the papers count. It "
        "is *right and valid* if besides it is a picture of this world: colour, size and place as measured are in "
        "range and as asked, and it has no defects. Verdicts go by *right and valid*."
    )
    judge = study.finished.part("judge") if study is not None else {}
    accepted, refused = judge.get("accepted") or {}, judge.get("refused") or {}
    if study is not None and accepted and refused:
        text += (
            f" The judge of {study.name} accepts {percent(min(accepted.values()))} of real images and of what a "
            f"tokenizer redraws of them, and refuses {percent(min(refused.values()))} of every kind of garbage it was "
            "checked on."
        )
    return text
