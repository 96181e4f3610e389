"""C6 to C12: claims of the objectives study that nothing here tests yet, and why. One that gets a test moves to a file
of its own."""

from recombine.claims.verdicts import Claim

NEEDS_ANATOMY = "It needs the anatomy of trained models (heads, neurons), which is not built yet."

CLAIMS = (
    Claim(
        id="C6",
        title="Polysemantic heads",
        statement="With JEPA, fewer attention heads mix factors.",
        published="Mean over 12 layers 64.2 % without JEPA, 52.2 % with",
        value=-0.12,
        measure="share of heads that mix factors, with JEPA minus without",
        trust="read from the pixels of a figure; the threshold is unknown",
        why_untested=NEEDS_ANATOMY,
    ),
    Claim(
        id="C7",
        title="Overlap of circuits",
        statement="With JEPA, the neuron circuits of two compositions share less.",
        published="Mean Jaccard overlap of six pairs 64 % without JEPA, 49 % with",
        value=-0.15,
        measure="mean overlap of circuits, with JEPA minus without",
        trust="read from the pixels of a figure by eye",
        why_untested=NEEDS_ANATOMY,
    ),
    Claim(
        id="C8",
        title="Quality on faces",
        statement="On CelebA, JEPA brings MaskGIT's FID on unseen compositions close to DiT's.",
        published="FID on unseen compositions: MaskGIT 162.4, with JEPA 120.8, DiT 118.6",
        trust="a third party's note on a table",
        why_untested="It needs CelebA, a world that is not here yet.",
    ),
    Claim(
        id="C9",
        title="Synthetic video",
        statement="The same order of objectives holds in synthetic video (CLEVRER-Kubric).",
        published="No curve or baseline is public; the best JEPA reaches 56.3 %",
        trust="a third party's note on a table",
        why_untested="It needs a world of video clips, which is not here yet.",
    ),
    Claim(
        id="C10",
        title="Driving video",
        statement="In driving video (CoVLA) the continuous world model reaches unseen cells of time of day and turn.",
        published="Share of clips whose nearest real clip lies in the right cell: day-right DiT 47 %, MaskGIT 18 %; "
        "night-left DiT 43 %, MaskGIT 14 %",
        value=0.29,
        measure="share of clips in the right cell, DiT minus MaskGIT, mean of both cells",
        trust="the authors' page",
        why_untested="It needs the CoVLA videos and world models of their size, outside the scope of this laboratory.",
    ),
    Claim(
        id="C11",
        title="Language",
        statement="Continuous reasoning (COCONUT) beats a discrete chain of thought on compositional splits.",
        published="Points24, Llama-3.2: 4.8 % discrete, 12.4 % continuous",
        value=0.0757,
        measure="share of puzzles solved, continuous minus discrete",
        trust="the authors' page",
        why_untested="It needs a language model and its data, outside the scope of this laboratory.",
    ),
    Claim(
        id="C12",
        title="240 compositions",
        statement="The same order of objectives holds on Shapes3D with its 240 compositions.",
        published="Image grids only: DiT right nearly everywhere, MaskGIT wrong or blended on most level-2 cells",
        trust="the authors' page, judged by eye",
        why_untested="It needs Shapes3D or a world of its size, which is not here yet.",
    ),
)
