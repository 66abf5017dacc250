"""Plausible errors in the rules, one a line: a change of one place in one source file. Pure data.

`tests/report_mutants.py` applies each in turn and runs the required tests, which must turn red. Each old text stands
exactly once in its file (tests/test_mutants.py). Knows nothing of how mutants are run.
"""
# ruff: noqa: E501

from typing import NamedTuple


class Mutant(NamedTuple):
    """One error: `old` of the file under harness/ becomes `new`."""

    name: str
    file: str
    old: str
    new: str


# fmt: off
VOCABULARY = (
    Mutant("163533 for <|im_end|>", "formats/__init__.py", "        **ids,\n", '        **(ids | {"terminator": 163533}),\n'),
    Mutant("the o200k pattern", "encoder.py", "return tokenizer.encode_ordinary, vocab", 'return __import__("tiktoken").Encoding("o", pat_str=__import__("splintr").O200K_BASE_PATTERN, mergeable_ranks={t: i for i, t in enumerate(vocab.ranks)}, special_tokens={}).encode_ordinary, vocab'),
    Mutant("marker text becomes control ids", "encoder.py", "return tokenizer.encode_ordinary, v", "return tokenizer.encode, v"),
    Mutant("the split pattern is not probed", "encoder.py", "        if got != ids:\n", "        if False:\n"),
    Mutant("prompt seams applied to outputs", "encoder.py", "        return _splintr()[0](text)\n", "        return [i for piece in prompt_pieces(text) for i in _splintr()[0](piece)]\n"),
    Mutant("prompt seams left out", "encoder.py", "for piece in prompt_pieces(text) for", "for piece in [text] for"),
    Mutant("ids shifted as transformers 5 does", "vocab.py", "for k, name in enumerate(CONTROL_NAMES)}", "for k, name in enumerate(sorted(CONTROL_NAMES, key=lambda n: n not in _NAMED.values()))}"),
    Mutant("a shifted table accepted", "vocab.py", "    if control == CONTROL_IDS:\n", "    if control == CONTROL_IDS or _is_compacted(control):\n"),
    Mutant("the ranks' hash not compared", "vocab.py", "    if got != VOCAB_SHA256:\n", "    if len(text) < 2_000_000:\n"),
    Mutant("-1 is the last id", "vocab.py", "if listed and not (min(listed) >= 0 and max(listed) < N_IDS)", "if listed and not max(listed) < N_IDS"),
    Mutant("bytes that are no text become U+FFFD", "vocab.py", "return data.decode()\n", 'return data.decode("utf-8", "replace")\n'),
    Mutant("an unknown model takes the first format", "formats/__init__.py", "found[0] if len(found) == 1 else None", "found[0] if found else known[0]"),
    Mutant("a model's variant ignored", "formats/__init__.py", "return bare if not colon or variant in VARIANTS else None", "return bare"),
    Mutant("K2-Thinking: <think> taken for the prompt's", "formats/kimi-k2-thinking.toml", 'think = "sampled"', 'think = "prompt"'),
    Mutant("edges of K2 taken for edges of K2.5", "formats/kimi-k2.5.toml", "history_think = true", 'history_think = true\nblank_free = ["content_start", "argument_edges", "argument_inner", "header_edges", "section_text"]'),
)

PROMPT = (
    Mutant("default system added to K2.5", "formats/kimi-k2.5.toml", "history_think = true", 'history_think = true\ndefault_system = "You are Kimi, an AI assistant created by Moonshot AI."'),
    Mutant("think pair missing in history", "formats/kimi-k2.5.toml", "history_think = true", "history_think = false"),
    Mutant("thinking off without </think> in the prompt", "formats/kimi-k2.5.toml", '<think>", "</think>"]', '<think>"]'),
    Mutant("old reasoning kept in history", "prompt.py", "return ended[-1] + 1 if ended else 0", "return 0"),
    Mutant("a tool's result without its header", "prompt.py", 'text = f"## Return of {string(message, \'tool_call_id\', where)}\\n{text}"', 'text = f"{text}"'),
    Mutant("a call in history by its name", "prompt.py", 'call["id"]), format.arg', 'call["function"]["name"]), format.arg'),
    Mutant("marker text in prompts not told", "prompt.py", "if (where, name) not in seen:", "if False:"),
    Mutant("any prompt bill is right", "asked.py", "_compared(billed == expected,", "_compared(True,"),
    Mutant("prompt ids sent back ignored", "asked.py", "_compared(list(told) == ids,", "_compared(True,"),
)

READINGS = (
    Mutant("a second terminator", "readings.py", "[Option((Segment(control=fmt.terminator),))]", "[Option((Segment(control=fmt.terminator),) * 2)]"),
    Mutant("</think> dropped behind reasoning", "readings.py", "    return text + Option((Segment(control=fmt.think_close),))\n", "    return text\n"),
    Mutant("</think> dropped where no reasoning came", "readings.py", 'rows = [close + Option((), ("empty-reasoning",))]', 'rows = [Option((), ("empty-reasoning",))]'),
    Mutant("</think> added with thinking off", "readings.py", "    if not mode:\n        return after\n", "    if not mode:\n        return [Option((Segment(control=fmt.think_close),)) + o for o in after]\n"),
    Mutant("</think> added to cut reasoning", "readings.py", '    if bare and turn.finish_reason == "length":\n', "    if False:\n"),
    Mutant("<think> added to K2.5", "readings.py", 'if mode and fmt.think == "sampled" else ()', 'if mode and fmt.think != "none" else ()'),
    Mutant("the thinking switch ignored", "readings.py", "    if thinking is not None:\n        return (thinking,)\n", ""),
    Mutant("an unknown switch is on", "readings.py", "return (True,) if turn.reasoning else fmt.thinking_modes", "return (True,)"),
    Mutant("a cut answer keeps a terminator", "readings.py", 'return [Option((), ("cut",))]', 'return [Option((Segment(control=fmt.terminator),), ("cut",))]'),
    Mutant("an inferred terminator is not masked", "readings.py", "Segment(control=fmt.terminator, inferred=True)", "Segment(control=fmt.terminator)"),
    Mutant("an unknown terminator is assumed", "readings.py", '    if sampled is None and (traits.get("terminator_billed") == "yes" or not section):\n', "    if sampled is None:\n"),
    Mutant("content merged from a section not expected", "readings.py", "    if not (turn.tool_calls and turn.content):\n", "    if True:\n"),
    Mutant("spaces of unknown detokenizers ignored", "readings.py", '    if trait == "none":\n', '    if trait != "inserted":\n'),
    Mutant("a close in content not moved", "readings.py", 'if turn.reasoning and "</think>" in turn.content:', "if False:"),
    Mutant("the search is not bounded", "readings.py", "MAX_READINGS = 512", "MAX_READINGS = 10**9"),
    Mutant("singular section marker is the control id", "markers.py", "    found = _matches(text)\n", '    text = text.replace("tool_call_section", "tool_calls_section")\n    found = _matches(text)\n'),
    Mutant("a terminator in the middle is control", "markers.py", "return control == fmt.terminator or match[0]", "return match[0]"),
    Mutant("markers in text are always control", "markers.py", "for spelled in _subsets(free):", "for spelled in ((),):"),
    Mutant("markers in text are always letters", "markers.py", "    free = [k for k in range(len(found)) if k not in forced]\n", "    forced, free = set(range(len(found))), []\n"),
    Mutant("a marker cut by a stream is control", "markers.py", " or _within(m, seams)}", "}"),
)

CALLS = (
    Mutant("json.dumps on arguments", "calls.py", '{"as-sent": call.arguments}', '{"as-sent": __import__("json").dumps(__import__("json").loads(call.arguments)) if is_json(call.arguments) else call.arguments}'),
    Mutant("a way of spacing dumps values anew", "json_keys.py", "    pieces = (p for p in", "    text = json.dumps(json.loads(text), ensure_ascii=False)\n    pieces = (p for p in"),
    Mutant("key order ignored", "calls.py", 'kept = traits.get("argument_keys") == "kept" or not keys_sorted(text)', "kept = True"),
    Mutant("another order's count ignored", "ids.py", "if any(len(other) != len(piece) for other in others):", "if False:"),
    Mutant("minted ids encoded", "calls.py", 'if match and match["name"] == call.name else "minted"', 'if match and match["name"] == call.name else "native"'),
    Mutant("the mask of a minted id dropped", "calls.py", 'inferred=style == "minted"', "inferred=False"),
    Mutant("the mask of a call index dropped", "calls.py", '0 if traits.get("call_index") == "kept" else -(-len(digits) // 3)', "0"),
    Mutant("the prefix of a call id dropped", "calls.py", 'return f"functions.{call.name}:{_index(call, position)}"', 'return f"{call.name}:{_index(call, position)}"'),
    Mutant("a short id not prefixed", "calls.py", '("prefixed", "short"): (_prefixed,)', '("prefixed", "short"): (_as_sent,)'),
    Mutant("calls numbered from 0", "calls.py", 'return match[1] if match and id_style(call) != "minted" else str(position)', "return str(position)"),
    Mutant("an unknown way of ids is as sent", "calls.py", '("", "short"): (_as_sent, _prefixed)', '("", "short"): (_as_sent,)'),
    Mutant("unknown edges are kept", "calls.py", 'return known == "lost" or (known is None and edge not in fmt.blank_free)', 'return known == "lost"'),
    Mutant("a lost prefix is no lookalike", "calls.py", "if (trait, style) in PREFIX_UNSEEN else ()", "if False else ()"),
    Mutant("the end of a section is always certain", "calls.py", 'open_end=traits.get("terminator_sampled") != "yes"', "open_end=False"),
    Mutant("malformed sections are no rivals", "calls.py", "malformed = [*_malformed(whole, fmt, traits), *_unprefixed(whole)]", "malformed = []"),
    Mutant("the mask of a lead dropped", "ids.py", "open_lead(pieces[0], encode) if segment.lead else 0", "0"),
    Mutant("the mask of a trail dropped", "ids.py", "open_trail(pieces[-1], encode) if segment.trail else 0", "0"),
    Mutant("the mask of lookalikes dropped", "ids.py", "alike = [row for row in map(encode, segment.lookalikes) if len(row) == len(piece)]", "alike = []"),
    Mutant("inferred control ids are not masked", "ids.py", "INFERRED if segment.inferred else TEMPLATE", "TEMPLATE"),
    Mutant("loss mask of inferred ids is 1", "types.py", "int(o != Origin.INFERRED)", "int(o <= Origin.INFERRED)"),
)

WITNESSES = (
    Mutant("a bill may be off by one", "witnesses.py", '"supports" if n + offset == scene.completion_tokens else', '"supports" if abs(n + offset - scene.completion_tokens) <= 1 else'),
    Mutant("the terminator counted twice", "witnesses.py", "return len(ids) - (bool(ids) and ids[-1] == fmt.terminator)", "return len(ids)"),
    Mutant("<think> billed with thinking off", "witnesses.py", 'if fmt.think != "prompt" or not thinking:', 'if fmt.think != "prompt":'),
    Mutant("a cut answer billed with a terminator", "witnesses.py", "    if cut:\n        return think\n", ""),
    Mutant("an unknown equation is ids + 1", "witnesses.py", "return int(total) if total is not None else None", "return int(total) if total is not None else 1"),
    Mutant("reasoning_tokens off by one", "witnesses.py", 'through_close=way == "ids+1"', 'through_close=way != "ids+1"'),
    Mutant("reasoning_tokens ignored", "witnesses.py", '"supports" if told == n else "contradicts"', '"supports"'),
    Mutant("an estimate of reasoning_tokens believed", "witnesses.py", 'way in (None, "estimate")', "way is None"),
    Mutant("chunk witness ignored", "witnesses.py", '    if cut:\n        return Testimony("chunks", "con', '    if False:\n        return Testimony("chunks", "con'),
    Mutant("chunks that may not be trusted believed", "stream.py", ') == "tokens"\n\n\nMIN', ') != "merged"\n\n\nMIN'),
    Mutant("split characters break a chunk", "stream.py", "if b < len(data) and data[b] & 0xC0 == 0x80]", "if False]"),
    Mutant("no witness is enough", "verdict.py", 'return self.says("bill") == "supports"', 'return self.says("bill") != "contradicts"'),
    Mutant("only the bill contradicts", "verdict.py", 'return any(t.says == "contradicts" for t in self.testimony)\n', 'return self.says("bill") == "contradicts"\n'),
    Mutant("MAX_INFERRED_SHARE 1.0", "verdict.py", "MAX_INFERRED_SHARE = 0.25", "MAX_INFERRED_SHARE = 1.0"),
    Mutant("'one length' before the bill is off", "verdict.py", "if len(lengths) > 1 and any(", "if False and any("),
    Mutant("of two lengths the first is taken", "verdict.py", "    if len(lengths) > 1:\n", "    standing = [t for t in standing if len(t.ids.ids) == len(first.ids.ids)]\n    if False:\n"),
    Mutant("where readings differ nothing is masked", "verdict.py", "if a != b or row.origins[k] == INFERRED:", "if row.origins[k] == INFERRED:"),
    Mutant("rivals ignored", "verdict.py", "    if any(t.supported for t in plain):\n        return _agreed(standing)\n", "    if any(t.supported for t in plain):\n        return _agreed(plain)\n"),
    Mutant("rank 1 believed without a witness", "verdict.py", "if any(_has_own_witness(t, plain, lost_text) for t in standing):", "if standing:"),
    Mutant("a larger bill proves spelled markers", "verdict.py", "not (longer and lost_text) if", "True if"),
    Mutant("an unsure length before the bill ignored", "verdict.py", 'if unsure is not None and unsure.says("bill") != "silent":', "if False:"),
    Mutant("a cut answer keeps its masked end", "verdict.py", "kept = len(ids.origins.rstrip(bytes([INFERRED])))", "kept = len(ids.ids)"),
)

CHECKS = (
    Mutant("finish allow-list widened", "checks.py", '"tool_calls", "length"})', '"tool_calls", "length", "content_filter"})'),
    Mutant("no finish reason is complete", "checks.py", "    if said is None:\n", '    said = said or "stop"\n    if False:\n'),
    Mutant("a call cut by max_tokens accepted", "checks.py", 'elif said == "length" and case.turn.tool_calls:', "elif False:"),
    Mutant("cut-unsaid off", "checks.py", "billed is not None and billed >= limit:", "billed is not None and billed > limit + 10**9:"),
    Mutant("stop strings accepted", "checks.py", 'if case.request.get("stop") and', "if False and"),
    Mutant("lost calls accepted", "checks.py", 'if turn.finish_reason == "tool_calls" and not turn.tool_calls', "if False"),
    Mutant("reasoning with thinking off accepted", "checks.py", "if case.thinking is False and case.turn.reasoning:", "if False:"),
    Mutant("all-reasoning accepted", "checks.py", 'if told is None or case.traits.get("reasoning_tokens") not in exact:', "if False:"),
    Mutant("reasoning within content accepted", "checks.py", 'if case.traits and "reasoning_end" not in case.traits:', "if False:"),
    Mutant("U+FFFD accepted", "checks.py", 'if "\\ufffd" in text:', "if False:"),
    Mutant("leak scan on `special` ids only", "checks.py", 'if in_call or m[0] == "<"})', 'if (in_call or m[0] == "<") and "tool_call" not in m and "think" not in m})'),
    Mutant("singular markers not told", "checks.py", "if SINGULAR.search(text):", "if False:"),
    Mutant("minted ids of unknown hosts accepted", "checks.py", 'if id_style(call) == "minted" and', "if False and"),
    Mutant("sorted keys accepted", "checks.py", 'if order != "kept" and', "if False and"),
    Mutant("coerced values accepted", "checks.py", '(types == "coerced" and others != ())', "False"),
    Mutant("numbers that a dump spells anew believed", "json_spellings.py", "    elif number := NUMBER.fullmatch(piece):", "    elif (number := NUMBER.fullmatch(piece)) and False:"),
    Mutant("other spellings only where nothing is known", "calls.py", 'if name != "as-sent" else ()', "if not trait else ()"),
    Mutant("values of unknown type taken as they came", "calls.py", "else other_values(call.arguments) or ()", "else ()"),
    Mutant("a whole chunk taken for token by token", "stream.py", "MIN_PIECES = 3", "MIN_PIECES = 1"),
    Mutant("a tool that was not offered accepted", "checks.py", "if shaped and called not in names:", "if False:"),
    Mutant("summaries accepted", "checks.py", "    if case.turn.sealed:\n", "    if False:\n"),
    Mutant("text behind calls accepted", "checks.py", "if last or (any(inner) and not known):", "if False:"),
    Mutant("zero bill accepted", "checks.py", "if case.completion_tokens == 0:", "if False:"),
    Mutant("wrong-provider check off", "checks.py", "if wrong or any(", "if any("),
    Mutant("gateway edits accepted", "checks.py", "if case.request.get(key):", "if False:"),
)

RESPONSE = (
    Mutant("stripped reasoning", "deltas.py", 'reasoning=fields[0] if fields else "",', 'reasoning=fields[0].strip() if fields else "",'),
    Mutant("stripped content", "deltas.py", "        content=content,\n", "        content=content.strip(),\n"),
    Mutant("stripped content of streams", "deltas.py", 'content="".join(rows["content"]),', 'content="".join(rows["content"]).strip(),'),
    Mutant("stripped arguments", "deltas.py", "        return arguments, False\n", "        return arguments.strip(), False\n"),
    Mutant("reasoning and reasoning_details joined", "deltas.py", 'reasoning=fields[0] if fields else "",', 'reasoning="".join(fields),'),
    Mutant("two reasoning texts are no contradiction", "deltas.py", "return any(text != texts[0] for text in texts[1:])", "return False"),
    Mutant("summaries beside reasoning not told", "deltas.py", "return text, any(d.type != SAMPLED_DETAIL for d in details)", "return text, False"),
    Mutant("a new call id at one index is the same call", "deltas.py", "if c.id == entry.id and entry.index in (None, c.index)]", "if entry.index in (None, c.index)]"),
    Mutant("SSE lines split at U+2028", "sse.py", '.replace(b"\\r", b"\\n") if b"\\r" in data else data', '.replace(b"\\r", b"\\n").replace(b"\\xe2\\x80\\xa8", b"\\n")'),
    Mutant("usage of the first chunk taken", "response.py", "head.usage = answer.usage or (choice and choice.usage) or head.usage", "head.usage = head.usage or answer.usage or (choice and choice.usage)"),
    Mutant("usage without choices ignored", "response.py", "        head.usage = answer.usage or", "        head.usage = (choice and answer.usage) or"),
    Mutant("an error beside choices ignored", "response.py", "    if answer.error is not None:\n", "    if answer.error is not None and not answer.choices:\n"),
    Mutant("finish `error` is an answer", "response.py", '    if choice.finish_reason == "error":\n', "    if False:\n"),
    Mutant("the first of several choices taken", "response.py", "if len(answer.choices) > 1 or choice.index:", "if False:"),
    Mutant("a stream cut in its last event is whole", "response.py", "return replace(turn, finish_reason=None) if cut else turn", "return turn"),
    Mutant("reasoning outside the bill forgotten", "flow.py", 'return total - prompt, (Finding("r', 'return billed, (Finding("r'),
    Mutant("totals that disagree believed", "flow.py", 'return None, (Finding("t', 'return billed, (Finding("t'),
)

REPORTS = (
    Mutant("exact ids believed without the count", "exact.py", "doubt = _count_doubt(row, turn, fmt, completion_tokens, offset) or _text", "doubt = _text"),
    Mutant("exact ids believed without the text", "exact.py", " or _text_doubt(row, turn, fmt, vocab, replay)", ""),
    Mutant("logprob bytes believed for split characters", "exact.py", "if matched is None or any(i is None for i in matched):", "if matched is None:"),
    Mutant("a reported terminator before the end", "exact.py", "    if fmt.terminator in row[:-1]:\n", "    if False:\n"),
    Mutant("what a known stack makes is not compared", "exact.py", "    if replay is not None:\n", "    if False:\n"),
    Mutant("an unexplained rest of ids believed", "exact.py", 'if left else ""', 'if False else ""'),
    Mutant("reports that contradict each other believed", "token_reports.py", "distinct.pop() if len(distinct) == 1 else None", "distinct.pop() if distinct else None"),
    Mutant("reported ids with fatal findings believed", "flow.py", "    if any(f.fatal for f in findings):\n        return base\n    return replace(base, name", "    return replace(base, name"),
    Mutant("blind is not blind", "flow.py", "    if blind:\n", "    if False:\n"),
)

HABITS = (
    Mutant("habits crossing formats", "habits.py", "if habit.trait in COUNT_TRAITS and not (habit.model or habit.format):", "if False:"),
    Mutant("habits of every provider", "habits.py", 'known = self._by_provider.get((provider or "").lower(), ())', "known = self.lines"),
    Mutant("swapped habits of the recorded stacks", "habits.py", 'known = self._by_provider.get((provider or "").lower(), ())', 'swap = {"vllm-0.32": "sglang-0.5.23", "sglang-0.5.23": "vllm-0.32"}\n            known = self._by_provider.get(swap.get(provider or "", provider or "").lower(), ())'),
    Mutant("the widest key holds", "habits.py", "        if weight > held:\n", "        if held < 0 or weight < held:\n"),
    Mutant("habits that contradict each other believed", "habits.py", "        elif weight == held and value != habit.value:\n", "        elif False:\n"),
    Mutant("a part of another stack's sum kept", "habits.py", "            del best[part]", "            pass"),
    Mutant("learn threshold 1", "equations.py", "MIN_FOR = 5", "MIN_FOR = 1"),
    Mutant("learn share a half", "equations.py", "MIN_SHARE = 0.9", "MIN_SHARE = 0.5"),
    Mutant("of several equations the first is learned", "equations.py", "if len({q.excess for q in carrying}) > 1:", "if False:"),
    Mutant("hidden control ids within words believed", "joins.py", "        if len(parts) == len(base):", "        if len(parts) == len(base) + 1:"),
    Mutant("no host may hide a control id", "joins.py", "or all(traits.get(trait) == value for trait, value in SHOWS_ALL.items()):", "or True:"),
    Mutant("a skipped close before a call on any count", "readings.py", 'traits.get("reasoning_tokens") == "ids+1"', '"reasoning_tokens" in traits'),
    Mutant("the end of reasoning that was never closed unmasked", "readings.py", "return (*before, replace(end, inferred=True)) if end", "return (*before, end) if end"),
    Mutant("words end at a line's end alone", "joins.py", "REST: 1 << MARK | 1 << OTHER | 1 << BLANK", "REST: 1 << BLANK"),
    Mutant("control ids hide in parsed calls too", "joins.py", "CALL in kinds and not in_calls, inner.find(1)", "False, inner.find(1)"),
    Mutant("any provider is the one asked for", "asked.py", "return _letters(bare) == _letters(answered)", "return _letters(bare)[:1] == _letters(answered)[:1]"),
    Mutant("of two models the first is believed", "flow.py", "return next(iter(found.values())) if len(found) == 1 else None", "return next(iter(found.values()), None)"),
)
# fmt: on

MUTANTS: tuple[Mutant, ...] = (
    *VOCABULARY,
    *PROMPT,
    *READINGS,
    *CALLS,
    *WITNESSES,
    *CHECKS,
    *RESPONSE,
    *REPORTS,
    *HABITS,
)
