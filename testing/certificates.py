"""Certificates for engines that are reached over mutual TLS."""

import datetime
import ipaddress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


class Authority:
    """A certificate authority for one test."""

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        self.folder, self.address = folder, address
        folder.mkdir()
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Airlock tests")])
        self.certificate = self._sign(self.name, self.key, is_authority=True)
        self._write("ca", self.certificate, self.key)

    def issue(self, name: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        self._write(name, self._sign(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key), key)

    def _sign(self, subject: x509.Name, key: Any, is_authority: bool = False) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if is_authority:
            usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        else:
            address = x509.IPAddress(ipaddress.ip_address(self.address))
            builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        issuer_key = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        ).add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def _write(self, name: str, certificate: x509.Certificate, key: Any) -> None:
        pem = serialization.Encoding.PEM
        (self.folder / f"{name}.pem").write_bytes(certificate.public_bytes(pem))
        plain = serialization.NoEncryption()
        (self.folder / f"{name}.key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))

    def serve(self, address: str) -> list[str]:
        """Options for an engine that listens on this address and accepts only our certificates."""
        self.issue("server")
        return [
            "-H", address, "--tlsverify", "--tlscacert", str(self.folder / "ca.pem"),
            "--tlscert", str(self.folder / "server.pem"), "--tlskey", str(self.folder / "server.key"),
        ]  # fmt: skip

    def give_keys(self, folder: Path) -> None:
        """Write a client's three files, as in a node's folder of keys."""
        self.issue("client")
        folder.mkdir(parents=True, exist_ok=True)
        for name, source in (("ca.pem", "ca.pem"), ("cert.pem", "client.pem"), ("key.pem", "client.key")):
            (folder / name).write_bytes((self.folder / source).read_bytes())
