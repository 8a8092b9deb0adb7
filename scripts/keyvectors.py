#!/usr/bin/env python3
"""A second implementation of identity and key, to compare the Go one with.

It writes random cases as JSON lines: a secret, the place and the arguments of a call, the
declared identity fields and the key that they must give.

    python3 scripts/keyvectors.py --seed 1 --n 1000 > vectors.jsonl
    PAWL_KEYVECTORS=$PWD/vectors.jsonl go test -run TestKeysAgreeWithSecondImplementation .

Plain Python 3 and its standard library only. It shares no code with the Go package and
follows the text of the rules alone.
"""
import argparse
import hashlib
import hmac
import json
import random
import sys
import unicodedata
from decimal import Context, Decimal

EXACT = Context(prec=400)
WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
PLACES = {"JPY": 0, "KRW": 0, "EUR": 2, "USD": 2, "KWD": 3, "TND": 3, "CLF": 4}

# Only characters that every supported Unicode version knows: the two sides may have
# different ones.
HOSTILE = (
    list("aZ09 .,:;|/\\\"'<>&{}[]~$%")
    + [chr(c) for c in range(1, 32)]
    + list("\x7f\x80\x85\xa0\xad\u2028\u2029\u200b\u200d\u202e\ufeff\ufffd\uffff\U0010ffff")
    + list("éÅ\u212b\u0301\u0300\u0323\u0307\u0345ßſKΩ\u2126İıǆ\ufb01\u0958\u0915\u093c가\u1100\u1161\u11a8")
    + list("😀👩\u200d👧🇪🇺\U0001d15e\U0001d157\u05d3\u05bc\ufb33漢字\uf900")
)


# --- canonical forms ---------------------------------------------------------------


def text(v):
    """NFC of the text without white space around it; of a number only an integer."""
    return unicodedata.normalize("NFC", str(v).strip(WHITE))


def decimal(v, places):
    """The number with exactly that many places; v is the text of a number."""
    d = Decimal(v.strip(WHITE))
    assert d == 0 or EXACT.scaleb(d, places) == EXACT.to_integral_value(EXACT.scaleb(d, places))
    units = int(EXACT.to_integral_value(EXACT.scaleb(d, places)))
    sign, digits = ("-" if units < 0 else ""), str(abs(units)).rjust(places + 1, "0")
    return sign + (digits[:-places] + "." + digits[-places:] if places else digits)


def derive(secret, identity, call):
    blob = {"id": identity, "tool": call["tool"]}
    for name in ("tenant", "run", "step", "gen"):
        if call.get(name):
            blob[name] = call[name]
    data = json.dumps(blob, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    if not secret:
        return hashlib.sha256(data).hexdigest()
    return hmac.new(bytes.fromhex(secret), data, hashlib.sha256).hexdigest()


# --- random cases ------------------------------------------------------------------


class Raw(str):
    """A piece of JSON to be written as it is: the spelling of a number."""


class Cases:
    def __init__(self, seed):
        self.rnd = random.Random(seed)

    def hostile(self, least=0):
        return "".join(self.rnd.choices(HOSTILE, k=self.rnd.randint(least, 12)))

    def some_text(self):
        while True:
            s = self.hostile(1)
            if text(s):
                return s

    def spelled(self, d):
        """One of the many spellings of a number, and the text that it is read from."""
        rnd = self.rnd
        sign, digits, exp = d.as_tuple()
        digits = "".join(map(str, digits)) + "0" * (zeros := rnd.choice([0, 0, 1, 4]))
        exp -= zeros
        point = rnd.randint(1, len(digits))
        shown, exp = digits[:point] + ("." + digits[point:] if point < len(digits) else ""), exp + len(digits) - point
        whole = shown.split(".")[0]
        if whole != "0" and whole.startswith("0"):  # JSON has no leading zeros
            shown, exp = "0." + digits, exp + point
        s = "-" * sign + shown
        if exp or rnd.random() < 0.2:
            s += rnd.choice("eE") + (rnd.choice(["", "+"]) if exp >= 0 else "") + str(exp)
        if rnd.random() < 0.5:
            return Raw(s), s
        if not sign and rnd.random() < 0.3:
            s = "+" + s
        return rnd.choice(["", " ", "\u2003\n"]) + s + rnd.choice(["", "\t"]), s

    def number(self, places):
        size = self.rnd.choice([1, 3, 17, 40])
        units = self.rnd.choice([0, 9007199254740993, self.rnd.randint(-(10**size), 10**size)])
        return Decimal(units).scaleb(-places, EXACT)

    def element(self):
        """A text as it is written and as it is canonical."""
        if self.rnd.random() < 0.3:
            n = str(self.rnd.choice([0, -1, 42, 9007199254740993, self.rnd.randint(-(10**20), 10**20)]))
            return Raw(n), n
        s = self.some_text()
        return s, text(s)

    def elements(self, n=None):
        pool = [self.element() for _ in range(4)]
        return [self.rnd.choice(pool) for _ in range(n or self.rnd.randint(1, 5))]

    def field(self, name, args):
        """Draws one field, puts its value into the arguments, returns field and canonical value."""
        rnd = self.rnd
        kind = rnd.choice(["text", "raw", "integer", "decimal", "money", "list", "set", "multiset", "zip", "pairs", "missing"])
        f, rule = {"name": name}, {"kind": kind}
        if kind == "text":
            value, canonical = self.element()
        elif kind == "raw":
            value = canonical = self.hostile(1)
        elif kind == "integer":
            value, read = self.spelled(self.number(0))
            canonical = decimal(read, 0)
        elif kind == "decimal":
            rule["digits"] = rnd.randint(0, 6)
            value, read = self.spelled(self.number(rule["digits"]))
            canonical = decimal(read, rule["digits"])
        elif kind == "money":
            code, places = rnd.choice(list(PLACES.items()))
            rule["currency"] = rnd.choice(["=" + code, name + " currency"])
            args[name + " currency"] = rnd.choice([code, code.lower(), " " + code + "\n"])
            value, read = self.spelled(self.number(places))
            canonical = decimal(read, places)
        elif kind in ("list", "set", "multiset"):
            pairs = self.elements()
            value, canonical = [v for v, _ in pairs], [c for _, c in pairs]
            if kind == "set":
                canonical = sorted(set(canonical))
            if kind == "multiset":
                canonical = sorted(canonical)
        elif kind in ("zip", "pairs"):
            first = self.elements()
            second = self.elements(len(first))
            value, args[name + " second"] = [v for v, _ in first], [v for v, _ in second]
            canonical = [[a, b] for (_, a), (_, b) in zip(first, second)]
            rule = {"kind": "zip", "with": name + " second"}
            if kind == "pairs":
                canonical = sorted(canonical)
                rule = {"kind": "multiset", "of": rule}
        else:
            f["optional"], rule = True, {"kind": rnd.choice(["text", "integer", "multiset"])}
            value, canonical = rnd.choice([None, "", " \u2028"] if rule["kind"] == "text" else [None, ""]), ""
        f["rule"] = rule
        where = rnd.random()
        if where < 0.2:  # deep inside, found by a JSON pointer
            args[name + "/o"] = {"~": ["x", value]}
            f["from"] = ["/" + name.replace("~", "~0").replace("/", "~1") + "~1o/~0/1"]
        elif where < 0.4:  # under the second of two names
            args[name + " alias"] = value
            f["from"] = [name, name + " alias"]
        else:
            args[name] = value
        return f, canonical

    def case(self):
        rnd, args, identity, fields = self.rnd, {}, {}, []
        for i in range(rnd.randint(0, 4)):
            name = (self.hostile() + str(i)).lstrip("/")  # a leading slash would make it a JSON pointer
            f, identity[name] = self.field(name, args)
            fields.append(f)
        call = {"tool": rnd.choice(["issue_refund", "up/stream", self.hostile(1)])}
        scope = rnd.choice(["step", "run", "business"])
        if scope != "business":
            call["run"] = self.hostile(1)
        if scope == "step":
            call["step"] = self.hostile(1)
        if rnd.random() < 0.3:
            call["tenant"] = self.hostile(1)
        if rnd.random() < 0.3:
            call["gen"] = rnd.randint(1, 12)
        secret = rnd.choice(["", rnd.randbytes(32).hex(), rnd.randbytes(rnd.randint(1, 100)).hex()])
        names = list(args)
        rnd.shuffle(names)
        written = self.written({n: args[n] for n in names})
        return {"secret": secret, "call": call, "args": written, "identity": fields, "key": derive(secret, identity, call)}

    def written(self, v):
        """JSON with spellings that must not matter: white space and escapes."""
        space = lambda: self.rnd.choice(["", "", "", " ", "\n\t"])
        if isinstance(v, Raw):
            return str(v)
        if isinstance(v, dict):
            return "{" + ",".join(space() + self.written(k) + space() + ":" + space() + self.written(w) for k, w in v.items()) + space() + "}"
        if isinstance(v, list):
            return "[" + ",".join(space() + self.written(w) + space() for w in v) + "]"
        return json.dumps(v, ensure_ascii=self.rnd.random() < 0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=1000)
    options = parser.parse_args()
    cases = Cases(options.seed)
    for _ in range(options.n):
        print(json.dumps(cases.case()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
