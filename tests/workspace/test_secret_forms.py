"""How many forms of secrets in code and configuration are seen, and that the lines around them stay."""

from pathlib import Path

import pytest

from fastcoder_lsp.workspace.secret_lines import without_secrets
from tests.workspace.secret_forms import FITTED, MORE, forms


@pytest.mark.parametrize("password", ["hunter2", "swordfish", "PLANTED", "Tr0ub4dor&3"])
@pytest.mark.parametrize(("table", "least", "one_in"), [(FITTED, 500, 100), (MORE, 900, 25)])
def test_few_forms_go_along(table: Path, least: int, one_in: int, password: str) -> None:
    missed, judged = [], 0
    for language, text, secrets in forms(table, password):
        judged += 1
        left = without_secrets(f"above = 1\n{text}\nbelow = 2", language)
        assert left.startswith("above = 1")
        assert left.endswith("below = 2"), text
        if any(secret in left for secret in secrets):
            missed.append(f"{language}: {text}")
    assert judged > least
    assert len(missed) <= judged / one_in, missed


@pytest.mark.parametrize("language", ["python", "shellscript", "xml"])
@pytest.mark.parametrize("part", ["x", '"a", ', "token=", "key=", "login("])
def test_a_line_that_is_too_long_to_judge_goes_along_in_no_case(part: str, language: str) -> None:
    """It is left out unread, so that no line takes long."""
    assert without_secrets(f"above\n{part * 50_000}\nbelow", language) == "above\nbelow"


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("python", "if hmac.compare_digest(given, 'swordfish'):"),
        ("javascript", "jwt.sign(payload, 'swordfish')"),
        ("go", 'mac := hmac.New(sha256.New, []byte("swordfish"))'),
        ("csharp", 'var login = new NetworkCredential("me", "swordfish");'),
        ("cpp", 'WiFi.begin("home", "swordfish");'),
        ("python", "# The password is Tr0ub4dor3."),
        ("javascript", "unlock('swordfish'); // the password"),
        ("ini", "_auth = c29tbWVyMjAyNA=="),
    ],
)
def test_a_secret_without_a_name_of_its_own(language: str, line: str) -> None:
    assert without_secrets(line, language) == ""


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("python", 'pin = "4821"'),
        ("python", 'CARD_PIN = "482199"'),
        ("python", "card_pin = 4821"),
        ("python", 'seed_phrase = "legal winner thank year wave sausage worth useful legal winner thank yellow"'),
        ("python", 'mnemonic = "legal winner thank year wave sausage worth useful legal winner thank yellow"'),
        ("python", 'SEED = "legal winner thank year wave sausage worth useful legal winner thank yellow"'),
        ("javascript", "const pin = '4821';"),
        ("properties", "card.pin=4821"),
        ("c", "static const uint8_t aes_key[16] = {0x9f, 0x2c, 0x11, 0xd4};"),
        ("c", "char password[] = {'h','u','n','t','e','r','2'};"),
        ("c", "const char password[] = {'h', 'u', 'n', 't', 'e', 'r', '2', 0};"),
        ("go", "var aesKey = []byte{0x9f, 0x2c, 0x11, 0xd4}"),
        ("rust", "const AES_KEY: [u8; 4] = [0x9f, 0x2c, 0x11, 0xd4];"),
        ("java", "byte[] secretKey = {(byte) 0x9f, 0x2c, 0x11};"),
    ],
)
def test_digits_words_bytes_and_characters(language: str, line: str) -> None:
    assert without_secrets(line, language) == ""


def test_no_line_of_an_array_goes_along() -> None:
    text = "uint8_t aes_key[8] = {\n    0x9f, 0x2c, 0x11, 0xd4,\n    0x8e, 0x2c, 0x11, 0xd4\n};"
    assert "0x" not in without_secrets(text, "c").replace("aes_key[8]", "")


def test_a_secret_is_seen_behind_any_number_of_quotes() -> None:
    line = "settings = {" + '"a": "b", ' * 300 + '"password": "hunter2"}'
    assert "hunter2" not in without_secrets(line, "python")


def test_a_bracket_that_is_closed_behind_a_secret_takes_no_line_below_along() -> None:
    text = 'connect(password="hunter2", options={"a": b})\nname = "abc1"'
    assert without_secrets(text, "python") == 'name = "abc1"'


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", 'unk_token = "<unk>"'),
        ("python", "tokens = [\n    'NAME',\n    'NUMBER',\n]"),
        ("python", 'error = "The password is missing."'),
        ("python", 'password = getpass("Password: ")'),
        ("python", 'fields = ("username", "password", "token")'),
        ("python", "connect(password=password, token=self.token)"),
        ("python", 'commit = "9338f7b671827df886678df2bdd7cc7b4f36dffd"'),
        ("python", "token = hashlib.new('sha256')"),
        ("python", "if name == 'value' and kind == 'text':"),
        ("python", '"""Lists the users.\n\nOwns the secrets by their `name`.\n"""'),
        ("python", "client.sign(data, 'base64')"),
        ("yaml", "password:\n  type: string\n  description: The password."),
        ("yaml", "token: ${{ secrets.GITHUB_TOKEN }}"),
        ("go", "type User struct {\n\tPassword string\n}"),
        ("shellscript", 'if [ -z "$PASSWORD" ]; then'),
        ("terraform", "password = var.password"),
        ("python", '    The count of secret_bits)``."""\n    return "abc1"'),
        ("typescript", "    }' password.`,\n    username: inputs.username,\n    title: 'abc1',"),
        ("yaml", "- arg_name: password\n  help_text: |\n    The user is asked for it here."),
        ("typescript", 'import { TokenCredential } from "@azure/core-auth";'),
        ("python", "def next_token(self):\n    return 'NUMBER'"),
        ("python", 'def get_password(self):\n    """Ask for it."""\n    return self.ask("Say it")'),
        ("python", "def password(self):\n    return self._password\n\ndef name(self):\n    return 'abc1234'"),
        ("python", "users = ['user1234', 'user5678']"),
        ("python", "users = [{'name': 'abc1234', 'email': 'me@h2.org'}]"),
        ("python", "group.users = [('admin', 'editor'), ('guest', 'reader')]"),
        ("python", "login: int = read(a / b2)"),
        ("yaml", "auth: server/auth:v3.11.2"),
        ("cpp", 'button.connect("clicked", "window", "_on_clicked");'),
        ("python", "led_pin = 17"),
        ("python", "spin = 4821"),
        ("python", "mapping: 4096"),
        ("python", 'seed = "legal winner"'),
        ("python", 'seed_phrase = read("wallet.txt")'),
        ("python", "letters_of_tokens = ['a', 'b', 'c']"),
        ("c", "uint8_t aes_key[16] = {0};"),
        ("c", "uint8_t table[4] = {0x9f, 0x2c, 0x11, 0xd4};"),
        ("shellscript", "git clone https://me@example.org/cafe.git"),
        ("javascript", "const hash = await bcrypt.hash(password, 10);"),
        ("java", 'String changePassword() {\n    return "change-view";\n}'),
        ("yaml", "- name: LOG_LEVEL\n  value: abc1234\n- name: password\n  type: string"),
        ("yaml", "- name: password\n  type: string\n- name: level\n  value: abc1234"),
        ("yaml", "apikeys:\n  operations:\n    supported_apis:\n    - v2alpha1"),
        ("json", '{\n  "key": "login.password",\n  "value": "Your password, please"\n}'),
        ("json", '{"DeleteVoiceConnectorTerminationCredentials": {\n  "http": {\n    "method": "POST"\n  }\n}}'),
        ("python", 'call(\n    # the password of each user\n    "abc1234",\n)'),
        ("python", 'add_argument(\n    "--password",\n    help="of the database",\n    default=None,\n)'),
        ("python", "tokens = {'root': [(words(('delete', 'new0'), suffix=r'x'), Name)]}"),
        ("python", "self._auth = Basic2Authenticator"),
        ("gitconfig", "[credential]\n\thelper = store"),
        ("shellscript", 'echo "$TOKEN" > token.txt'),
        ("plaintext", "Please login with your password\nand wait for the answer"),
        ("plaintext", "app/main.py:12:5:E501:long"),
    ],
)
def test_ordinary_code_stays(language: str, text: str) -> None:
    assert without_secrets(text, language) == text
