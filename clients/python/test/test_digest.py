"""The digest of an effect's input, by the table that the server and the worker in JavaScript are tested with."""

from __future__ import annotations

import json
import pathlib
import unittest

from mailroom.jsontext import digest

TABLE = pathlib.Path(__file__).resolve().parents[3] / "internal" / "jsontext" / "testdata" / "canonical.json"


class TestDigest(unittest.TestCase):
    def test_equal_values_have_the_digest_of_the_server(self) -> None:
        rows = json.loads(TABLE.read_text(encoding="utf-8"))
        self.assertGreater(len(rows), 30)
        for row in rows:
            with self.subTest(row["text"]):
                self.assertEqual(digest(json.loads(row["text"])), row["digest"])

    def test_values_of_python_have_the_digest_of_their_json(self) -> None:
        self.assertEqual(digest({"b": 1.0, "a": (1, 2)}), digest({"a": [1, 2], "b": 1}))
        self.assertEqual(digest(10**21), digest(1e21))
        self.assertNotEqual(digest(2**53), digest(2**53 + 1))
        self.assertEqual(digest(None), digest(json.loads("null")))


if __name__ == "__main__":
    unittest.main()
