"""Word order out of n-grams: the passages that a bag of them leaves no choice about.

Words are joined as long as the n-gram that follows is the only one that can, and no
other leads to it. What repeats, branches; there a passage ends.

Source: Fillmore, Goldberg and Zhu, "Document recovery from bag-of-word indices" (2008),
for the task; the paths without branches are those of genome assembly.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

Gram = tuple[str, ...]


def passages(words: Iterable[str]) -> list[str]:
    """Passages of a text, the longest first; in which order they follow isn't known.

    They stand in the text if the n-grams are all of its own. A vocabulary that leaves
    some out (rare ones, stop words) makes joints that aren't there. So does a text that
    ends with the words that it begins with, once.

    Args:
      words: n-grams of words, as vectorisers name them; the longest ones are used.
    Returns: passages of more words than an n-gram has; none where words are single, or
      letters.
    """
    grams = {tuple(word.split(" ")) for word in words}
    length = max(map(len, grams), default=0)
    if length < 2 or any(len(part) < 2 for gram in grams for part in gram):
        return []
    after: dict[Gram, list[Gram]] = defaultdict(list)
    before: dict[Gram, list[Gram]] = defaultdict(list)
    for gram in sorted(gram for gram in grams if len(gram) == length):
        after[gram[:-1]].append(gram)
        before[gram[1:]].append(gram)

    def inside(place: Gram) -> bool:
        return len(after[place]) == 1 == len(before[place])

    starts = [gram for place in list(after) if not inside(place)
              for gram in after[place]]  # fmt: skip
    found, used = [], set[Gram]()
    # Rings have no start: any of their n-grams will do, after all others.
    for gram in [*starts, *sorted(chain(*after.values()))]:
        if gram in used:
            continue
        path = list(gram)
        used.add(gram)
        while inside(place := tuple(path[1 - length :])):
            (step,) = after[place]
            if step in used:
                break
            used.add(step)
            path.append(step[-1])
        if len(path) > length:
            found.append(" ".join(path))
    return sorted(found, key=lambda path: (-path.count(" "), path))
