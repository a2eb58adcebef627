"""Takes the tags out of what a model reads, and puts them where they belong in its translation."""

from dataclasses import replace

from pellucid.data.text.line_splitting import SplitLine, SplitRules, find_pictures, split_line
from pellucid.data.text.markup import TaggedText, extract_tags, find_tags, restore_tags
from pellucid.decode.line_segments import Search, SearchResult, Segment
from pellucid.decode.source_reader import SourceReader


class RestoreTags:
    """The stage that gives translations the tags of their segments, by the links between the words of both."""

    def __call__(self, segments: list[Segment], search: Search) -> list[SearchResult]:
        results = search(segments)
        for i, segment in enumerate(segments):
            if not segment.marked.tags:
                continue
            tagged = []
            for text, links in zip(results[i].texts, results[i].links, strict=True):
                tagged.append(restore_tags(segment.marked, text, links))
            results[i] = replace(results[i], tagged=tagged)
        return results


def extract_line_tags(
    line: str, split: SplitLine, rules: SplitRules, reader: SourceReader
) -> tuple[SplitLine, list[TaggedText]]:
    """Strip the tags of each segment.

    Segments that contain only tags become part of the gaps between the others. The pictures of the
    line, which the model does not know, are tags, too.
    """
    # Found in the whole line, because a pair of marks may stand around several sentences.
    line_tags = find_tags(line)
    pictures = find_pictures(line, reader.knows)
    if pictures:
        line_tags = sorted([*line_tags, *pictures])

    segments, tagged, gaps = [], [], [split.gaps[0]]
    start = 0
    for n, segment in enumerate(split.segments):
        start += len(split.gaps[n])
        end = start + len(segment)
        inside = []
        for tag in line_tags:
            if start <= tag.start and tag.end <= end:
                inside.append(tag.shift_by(-start))
        tagged_text = extract_tags(segment, inside)

        # Nothing to split means nothing to translate: white space is left where the tags were.
        if not tagged_text.tags or split_line(tagged_text.text, rules=rules).segments:
            segments.append(segment)
            tagged.append(tagged_text)
            gaps.append(split.gaps[n + 1])
        else:
            gaps[-1] += segment + split.gaps[n + 1]
        start = end
    return SplitLine(tuple(segments), tuple(gaps)), tagged
