# SPDX-License-Identifier: MIT
"""One receiver, over HTTP: how it proves its identity, its keys, requests and their answers."""

import base64
import hashlib
import http.client
import ipaddress
import json
import os
import re
import socket
import ssl
import threading

CONNECT_S = 5
# A change restarts services of the device.
CHANGE_FACTOR = 4
# The description of the API has about 200 KB.
MAX_ANSWER_BYTES = 8 * 1024 * 1024
MAX_FILE_BYTES = 1024 * 1024

PORTS = {"https": 443, "http": 80}
ADDRESS = re.compile(r"(?:(https?)://)?(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9][A-Za-z0-9.-]*))(?::(\d{1,5}))?/?")
PIN = re.compile(r"(?:sha256//)?([A-Za-z0-9+/]{43}=)")
FINGERPRINT = re.compile(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){31}")
# Keys as devices accept them (POST /api/v1/api-key), and as they make them.
KEY = re.compile(r"[A-Za-z0-9._~-]{22,128}")
# Tags in a certificate (RFC 5280 section 4.1); VERSION is that of its only optional member, [0].
INTEGER, SEQUENCE, VERSION = 0x02, 0x30, 0xA0
# A header allows no other characters (RFC 9110 section 5.5).
CREDENTIAL = re.compile(r"[\x21-\x7e]+")


class ReceiverError(Exception):
    """An error that ends the task; its text is for a person."""


class WrongCall(ReceiverError):
    """An option has a value that cannot be used; nothing was sent."""


class Unanswered(ReceiverError):
    """The device did not answer: it is unknown whether it carried out the request."""


class Refused(ReceiverError):
    """The device answered with a problem (RFC 9457)."""

    def __init__(self, status, problem):
        detail = str(problem.get("detail", "")).rstrip(".")
        super().__init__(f"the device refuses it ({status}): {detail}")
        self.status = status
        errors = problem.get("errors")
        self.errors = [each for each in errors if isinstance(each, dict)] if isinstance(errors, list) else []


class Endpoint:
    """Where a device is, as its owner writes it: HOST, HOST:PORT, https://HOST:PORT or http://HOST:PORT."""

    def __init__(self, text):
        bare6 = "[" not in text and "/" not in text and text.count(":") > 1
        match = ADDRESS.fullmatch(f"[{text}]" if bare6 else text)
        scheme, host6, host4, port = match.groups() if match else (None, None, None, None)
        self.is_tls = scheme != "http"
        self.host = host6 or host4 or ""
        self.port = int(port) if port else PORTS[scheme or "https"]
        if not self.host or not 1 <= self.port <= 65535 or (host6 and not is_ipv6(host6)):
            # The link with which the page signs in has the key after the #, and other URLs have passwords.
            shown = "it" if re.search("[#?@]", text) else f'"{text}"'
            raise WrongCall(
                f"address: {shown} is no address of a device; give HOST, HOST:PORT, https://HOST:PORT or http://HOST:PORT"
            )

    def __str__(self):
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def is_ipv6(text):
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


class Trust:
    """How a device proves its identity before anything is sent to it: by a pin, or by an authority."""

    def __init__(self, endpoint, pin=None, ca_path=None):
        self.pin = self.fingerprint = self.context = None
        if not endpoint.is_tls:
            for name, value in (("pin", pin), ("ca_path", ca_path)):
                if value:
                    raise WrongCall(f"{name}: there is no TLS at an http: address")
            return
        if pin:
            self._take(pin)
            # The certificate is the device's own: it is compared with the pin, and no authority has signed it.
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self.context.check_hostname = False
            self.context.verify_mode = ssl.CERT_NONE
            return
        try:
            is_folder = bool(ca_path) and os.path.isdir(ca_path)
            self.context = ssl.create_default_context(
                cafile=None if is_folder else ca_path or None, capath=ca_path if is_folder else None
            )
        except (OSError, ssl.SSLError) as error:
            raise WrongCall(f"ca_path: {ca_path} has no certificates in PEM that can be read: {reason_of(error)}")

    def _take(self, pin):
        match = PIN.fullmatch(pin)
        if match:
            self.pin = match.group(1)
        elif FINGERPRINT.fullmatch(pin):
            self.fingerprint = pin.upper()
        else:
            raise WrongCall("pin: give sha256//BASE64, or a SHA-256 fingerprint as 32 hexadecimal pairs with colons")

    def check(self, certificate):
        """Raises an error unless a certificate (DER) is that of the device."""
        if self.fingerprint:
            digits = hashlib.sha256(certificate).hexdigest().upper()
            shown = ":".join(digits[at:at + 2] for at in range(0, len(digits), 2))
            if shown != self.fingerprint:
                raise ReceiverError(f"it is not the device with this pin: its certificate has another fingerprint, {shown}")
        if self.pin:
            shown = base64.b64encode(hashlib.sha256(public_key_in(certificate)).digest()).decode()
            if shown != self.pin:
                raise ReceiverError(f"it is not the device with this pin: its certificate has another one, sha256//{shown}")


def public_key_in(certificate):
    """The SubjectPublicKeyInfo of a certificate, both in DER (RFC 5280 section 4.1)."""
    try:
        at, _end = der_content(certificate, 0, SEQUENCE)
        at, _end = der_content(certificate, at, SEQUENCE)
        version = [VERSION] if certificate[at] == VERSION else []
        # The serial number, the algorithm of the signature, the issuer, the validity and the subject.
        for tag in version + [INTEGER] + 4 * [SEQUENCE]:
            _start, at = der_content(certificate, at, tag)
        _start, end = der_content(certificate, at, SEQUENCE)
        return certificate[at:end]
    except IndexError:
        raise ReceiverError("its certificate cannot be read")


def der_content(data, at, tag):
    """
    Where the content of a value begins, and where it ends (X.690 section 8.1). A length of 0x80 is indefinite, which OpenSSL reads
    although DER forbids it (section 10.1): the two would not see the same key.
    """
    length, start = data[at + 1], at + 2
    if data[at] != tag or length == 0x80:
        raise IndexError
    if length & 0x80:
        count = length & 0x7F
        length, start = int.from_bytes(data[start:start + count], "big"), start + count
    if start + length > len(data):
        raise IndexError
    return start, start + length


def credentials_in(path, device=None):
    """
    The keys in a file, in the order in which they are tried: the key on its only line; or, with the name of a device, the one or
    two keys of its line NAME,KEY or NAME,KEY,NEXT. While `receiverd-fleet rotate-keys` replaces a key, either may be in force.
    """
    text = read_private(path)
    if not device:
        key = text.strip()
        if not CREDENTIAL.fullmatch(key):
            raise WrongCall(f"key_file: {path} is not a file with one key or token; with lines NAME,KEY, give device as well")
        return [key]
    found = {}
    for number, line in enumerate(text.split("\n"), 1):
        name, *keys = [part.strip() for part in line.strip().split(",")]
        if not line.strip() or line.strip().startswith("#"):
            continue
        # The line may hold a key, so it is not quoted.
        if len(keys) not in (1, 2) or not all(KEY.fullmatch(key) for key in keys):
            raise WrongCall(f"key_file: {path}:{number}: give NAME,KEY, with a key of 22 to 128 characters of A-Z, a-z, 0-9 and ._~-")
        if name in found:
            raise WrongCall(f"key_file: {path}:{number}: {name} has another line before")
        found[name] = keys
    if device not in found:
        raise WrongCall(f"key_file: {path} has no line {device},KEY")
    return found[device]


def read_private(path):
    try:
        # Some editors put a byte-order mark at the beginning.
        with open(path, encoding="utf-8-sig") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise WrongCall(f"key_file: {path} has secrets, and others may read it: chmod 600 {path}")
            return file.read(MAX_FILE_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise WrongCall(f"key_file: {path}: {reason_of(error)}")


def reason_of(error):
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message.rstrip('.')}; give its pin, or ca_path"
    if getattr(error, "reason", None) == "WRONG_VERSION_NUMBER":
        return "it does not speak TLS; is it http: in place of https:?"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")


class Answer:
    """The body of an answer, which is a JSON object, and its headers."""

    def __init__(self, body, headers):
        self.body = body
        self.headers = headers
        self.etag = headers.get("ETag")


class Client:
    """Sends requests to a device, each on a new connection: one that is kept open would not show that the device is gone."""

    def __init__(self, endpoint, trust, credentials, timeout_s):
        self._endpoint = endpoint
        self._trust = trust
        self._credentials = list(credentials)
        self._timeout_s = timeout_s

    def send(self, method, path, body=None, etag=None):
        """
        Returns an `Answer`. Raises `Refused`, `Unanswered`, or `ReceiverError` if there is no such device. A change has four
        times as long as another answer.
        """
        timeout_s = self._timeout_s if method == "GET" else CHANGE_FACTOR * self._timeout_s
        headers = {} if etag is None else {"If-Match": etag}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        while True:
            try:
                return self._answer(method, path, data, headers, timeout_s)
            except Refused as error:
                if error.status != 401 or len(self._credentials) == 1:
                    raise
                del self._credentials[0]

    def _answer(self, method, path, data, headers, timeout_s):
        connection = self._connect(timeout_s)
        wire = connection.sock
        is_late = threading.Event()

        def give_up():
            is_late.set()
            # Not the method of `ssl`, which would go on without encryption.
            try:
                socket.socket.shutdown(wire, socket.SHUT_RDWR)
            except OSError:
                pass

        # A timeout of the socket would start over with each byte.
        timer = threading.Timer(timeout_s, give_up)
        timer.daemon = True
        timer.start()
        try:
            headers = dict(headers, Authorization=f"Bearer {self._credentials[0]}", Connection="close")
            connection.request(method, f"/api/v1{path}", data, headers)
            answer = connection.getresponse()
            text = answer.read(MAX_ANSWER_BYTES + 1)
            if is_late.is_set():
                raise OSError("late")
        except (OSError, http.client.HTTPException, ValueError) as error:
            if is_late.is_set():
                raise Unanswered(f"it does not answer within {timeout_s} s")
            raise Unanswered(f"it broke off: {reason_of(error)}")
        finally:
            timer.cancel()
            connection.close()
            wire.close()
        return understood(answer.status, answer.headers, text)

    def _connect(self, timeout_s):
        endpoint, limit_s = self._endpoint, min(CONNECT_S, timeout_s)
        if endpoint.is_tls:
            connection = http.client.HTTPSConnection(endpoint.host, endpoint.port, timeout=limit_s, context=self._trust.context)
        else:
            connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=limit_s)
        try:
            connection.connect()
            if endpoint.is_tls:
                self._trust.check(connection.sock.getpeercert(binary_form=True))
        except (TimeoutError, socket.timeout):
            connection.close()
            raise ReceiverError(f"cannot connect to {endpoint}: no connection within {limit_s} s")
        except OSError as error:
            connection.close()
            raise ReceiverError(f"cannot connect to {endpoint}: {reason_of(error)}")
        except ReceiverError:
            connection.close()
            raise
        connection.sock.settimeout(timeout_s)
        return connection


def understood(status, headers, text):
    if len(text) > MAX_ANSWER_BYTES:
        raise ReceiverError("its answer has no end: it is no receiver")
    is_fine = 200 <= status < 300
    if status == 204:
        return Answer({}, headers)
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if is_fine and isinstance(body, dict):
        return Answer(body, headers)
    if not is_fine and isinstance(body, dict) and isinstance(body.get("detail"), str):
        raise Refused(status, body)
    if 300 <= status < 400:
        raise ReceiverError(f"it redirects ({status}); is it https: in place of http:, or another program?")
    # From a server in front of a service that is starting.
    if status in (502, 504):
        raise Unanswered(f"its service is not running ({status})")
    raise ReceiverError(f"it is no receiver: it answers {status}, and not as one")
