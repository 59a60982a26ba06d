"""A proxy that passes requests on, and can lose answers."""

from __future__ import annotations

import socket
import threading


class Proxy:
    """Listens on a port of its own. `lose(PART)` drops the next part of an answer to a request that contains PART."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._part = b""
        self.lost = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, part: str) -> None:
        self.lost.clear()
        self._part = part.encode()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._to))
            asked = [b""]  # the last request of the connection
            threading.Thread(target=self._pass, args=(client, server, asked, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, asked, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, asked: list[bytes], asks: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                if asks and data.startswith((b"GET ", b"POST ")):
                    asked[0] = data
                if not asks and self._part and self._part in asked[0]:
                    self._part = b""
                    self.lost.set()  # the server has done it, and its answer is lost
                    break
                target.sendall(data)
        except OSError:
            pass
        for s in (source, target):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
