"""A proxy that passes requests on, and can lose answers, refuse requests, and hold them."""

from __future__ import annotations

import json
import select
import socket
import threading


class Proxy:
    """Listens on a port of its own. What is to happen to requests is chosen by a part of them."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._part = b""
        self.lost = threading.Event()
        self._lock = threading.Lock()  # owns what follows
        self._refusals: list[tuple[bytes, int, str, str]] = []
        self.refused: list[bytes] = []  # requests that were refused
        self._hold = b""
        self._held: list[socket.socket] = []
        self._go = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, part: str) -> None:
        """Drops the next part of an answer to a request that contains `part`."""
        self.lost.clear()
        self._part = part.encode()

    def refuse(self, part: str, status: int, code: str, detail: str = "the test refuses it", *, times: int = 1) -> None:
        """Answers the next requests that contain `part` itself."""
        with self._lock:
            self._refusals += [(part.encode(), status, code, detail)] * times

    def hold(self, part: str) -> None:
        """Passes no request on that contains `part` until `go`."""
        self._hold = part.encode()

    def waiting(self) -> int:
        """Counts requests that are held, and whose clients still wait for an answer."""
        with self._lock:
            return sum(s.fileno() >= 0 and not select.select([s], [], [], 0)[0] for s in self._held)

    def go(self) -> None:
        """Passes held requests on."""
        self._hold = b""
        self._go.set()

    def close(self) -> None:
        self.go()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                client.close()
                continue
            asked = [b""]  # the last request of the connection
            threading.Thread(target=self._requests, args=(client, server, asked), daemon=True).start()
            threading.Thread(target=self._answers, args=(server, client, asked), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, asked: list[bytes]) -> None:
        try:
            while data := _request(client):
                asked[0] = data
                if answer := self._refusal(data):
                    client.sendall(answer)
                    continue
                if self._hold and self._hold in data:
                    with self._lock:
                        self._held.append(client)
                    self._go.wait()
                server.sendall(data)
        except OSError:
            pass
        _end(client, server)

    def _answers(self, server: socket.socket, client: socket.socket, asked: list[bytes]) -> None:
        try:
            while data := server.recv(1 << 16):
                if self._part and self._part in asked[0]:
                    self._part = b""
                    self.lost.set()  # the server has done it, and its answer is lost
                    break
                client.sendall(data)
        except OSError:
            pass
        _end(server, client)

    def _refusal(self, data: bytes) -> bytes:
        with self._lock:
            for refusal in self._refusals:
                part, status, code, detail = refusal
                if part in data:
                    self._refusals.remove(refusal)
                    self.refused.append(data)
                    body = json.dumps({"code": code, "detail": detail, "status": status}).encode()
                    head = [f"HTTP/1.1 {status} No", "Content-Type: application/json", f"Content-Length: {len(body)}"]
                    return "\r\n".join([*head, "", ""]).encode() + body
        return b""


def _request(client: socket.socket) -> bytes:
    """Reads a request; nothing at the end. Clients send the next one after the answer."""
    data, length = b"", 0
    while b"\r\n\r\n" not in data or len(data) < length:
        more = client.recv(1 << 16)
        if not more:
            return b""
        data += more
        if not length and b"\r\n\r\n" in data:
            head = data.partition(b"\r\n\r\n")[0]
            length = len(head) + 4 + sum(
                int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return data


def _end(*sockets: socket.socket) -> None:
    for s in sockets:
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        s.close()
