"""The code of the README, as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from fixture import HERE, PATIENCE, Case


class TestReadme(Case):
    def block(self, n: int, page: Path = HERE.parent / "README.md") -> list[str]:
        """A command that runs the nth block of Python."""
        text = re.findall(r"```python[^\n]*\n(.*?)```", page.read_text(), re.S)[n]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "block.py"
        path.write_text(text)
        return [sys.executable, str(path)]

    def start(self, n: int, agent: str, page: Path = HERE.parent / "README.md") -> None:
        process = subprocess.Popen(self.block(n, page), env=self.env(), stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.registered(agent)

    def test_the_worker_of_twelve_lines_and_the_client_beside_it(self) -> None:
        self.start(0, "shout")
        out = subprocess.run(self.block(1), env=self.env(), stdout=subprocess.PIPE, timeout=PATIENCE, check=True).stdout
        self.assertIn("May I shout 'hello world'?", out.decode())
        self.assertRegex(out.decode(), r"HELLO WORLD \n$")

    def test_the_worker_of_the_first_page(self) -> None:
        self.start(0, "shout", HERE.parents[2] / "README.md")
        run = self.mailroom.send("hello", agent="shout")
        self.assertEqual(self.done(run), "HELLO")

    def test_the_agents_of_the_page_about_agents(self) -> None:
        page = HERE.parents[2] / "docs/learn/write-an-agent.md"
        self.start(0, "shout", page)
        self.assertEqual(self.done(self.mailroom.send("hello", agent="shout")), "HELLO")
        self.start(1, "clerk", page)
        run = self.mailroom.send("a lamp", agent="clerk").wait(until_asked=True)
        for ticket in self.mailroom.asks(run=run.id):
            self.assertEqual(ticket.prompt, "Pay it?")
            self.mailroom.decide(ticket, "approve")
        self.assertEqual(self.done(run), "Paid order A1.")

    def test_the_async_agent_with_a_decorated_effect(self) -> None:
        self.start(2, "shop")
        run = self.mailroom.send("o7", agent="shop")
        self.assertEqual(self.done(run), f"receipt {run.id}/pay o7\n")

    def test_the_worker_that_dies_and_the_client_that_follows(self) -> None:
        self.start(3, "count")
        client = self.block(4)
        Path(client[1]).write_text(Path(client[1]).read_text().replace('"20"', '"2"'))
        out = subprocess.run(client, env=self.env(), stdout=subprocess.PIPE, timeout=PATIENCE, check=True).stdout
        self.assertEqual(out.decode(), "0 by attempt 1\n1 by attempt 1\nthe receipt\n")


if __name__ == "__main__":
    unittest.main()
