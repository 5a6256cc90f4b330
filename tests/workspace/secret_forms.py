"""Ways in which secrets stand in code and configuration, for the tests that none of their lines goes along.

`@@` is a password; `@20@` are twenty random letters and digits, `@h20@` hexadecimal ones. A form ends at a line of `%`.
"""

import random
import re
from collections.abc import Iterator

_FORMS = {
    "python": r'''
password = "@@"
%
DB_PASSWORD: str = '@@'
%
conn = psycopg2.connect("host=db user=me password=@@")
%
conn = connect(host="db", user="me", port=5432, timeout=10, ssl=True, name="app", schema="public", password="@@")
%
settings = {"a": "b", "c": "d", "e": "f", "g": "h", "i": "j", "password": "@@"}
%
passwords = ["@@", "@@"]
%
PASSWORDS = {
    "alice": "@@",
    "bob": "@@",
}
%
password = b"@@"
%
password = rb'@@'
%
password = f"@@{suffix}"
%
SECRET_KEY = "@@" + "@@"
%
SECRET_KEY = (
    "@@"
    "@@"
)
%
API_SECRET = """
@@
"""
%
api_key = base64.b64decode("@20@")
%
os.environ["API_KEY"] = "@@"
%
os.environ.setdefault("DB_PASSWORD", "@@")
%
token = os.environ.get("GITHUB_TOKEN", "@@")
%
token = os.getenv("AUTH_TOKEN") or "@@"
%
requests.get(url, headers={"Authorization": "Bearer @20@"})
%
requests.get(url, headers={"X-Api-Key": "@@"})
%
requests.get(f"https://api.host/v1?access_token=@20@&page={page}")
%
requests.post(url, auth=HTTPBasicAuth("me", "@@"))
%
smtp.login("me@host", "@@")
%
client.login(username="me", password="@@")
%
if password == "@@":
%
if user.password != '@@':
%
parser.add_argument("--password", default="@@")
%
engine = create_engine("postgresql+psycopg2://me:@@@db:5432/app")
%
r = redis.from_url("redis://:@@@host:6379/0")
%
SLACK = "xoxb-@12@-@12@-@24@"
%
# password: @8@
%
# old: password = "@@"
%
PRIVATE_KEY = """-----BEGIN RSA PRIVATE KEY-----
@64@
@64@
-----END RSA PRIVATE KEY-----"""
%
KEY = (
    "-----BEGIN EC PRIVATE KEY-----\n"
    "@64@\n"
    "@40@\n"
    "-----END EC PRIVATE KEY-----\n"
)
%
self.encryption_key = "@h32@"
%
config.set("database", "password", "@@")
%
admin = User("admin", password="@@", email="a@host")
%
db_pass, db_user = "@@", "me"
%
jwt.encode(payload, "@24@", algorithm="HS256")
%
JWT_SECRET = '@@'
%
data = {'user': 'me', 'pwd': '@@'}
%
data = dict(user="me", passwd="@@")
%
ftp = FTP("host", "me", passwd="@@")
%
paramiko_client.connect("host", username="me", passphrase="@@")
%
mdp = "@@"
%
mot_de_passe = "@@"
%
contraseña = "@@"
%
пароль = "@@"
%
senha = '@@'
%
密码 = "@@"
%
TWILIO_AUTH_TOKEN = "@h32@"
%
sendgrid = "SG.@22@.@43@"
%
password: Final[str] = "@@"
%
assert login("me", "@@")
%
payload = "{\"password\": \"@@\"}"
%
cmd = "mysql -u root -p@@ app"
%
subprocess.run(["sshpass", "-p", "@@", "ssh", "host"])
%
subprocess.run(["tool", "--api-key", "@@"])
%
cur.execute("CREATE USER me WITH PASSWORD '@@'")
%
cur.execute("ALTER USER me IDENTIFIED BY '@@'")
%
mnemonic = "@@ @@ @@ @@ @@ @@"
%
hashed = "$2b$12$@53@"
''',
    "javascript": r"""
const apiKey = '@@';
%
const config = { user: 'me', password: '@@' };
%
const token = `@20@`;
%
let password = process.env.PASSWORD || '@@';
%
let secret = process.env.SECRET ?? "@@";
%
fetch(url, { headers: { Authorization: 'Basic @20@' } });
%
axios.defaults.headers.common['Authorization'] = 'Bearer @24@';
%
mongoose.connect('mongodb+srv://me:@@@cluster0.host.net/app');
%
localStorage.setItem('token', '@20@');
%
document.cookie = "sessionid=@24@; path=/";
%
firebase.initializeApp({ apiKey: "AIza@35@" });
%
const stripe = require('stripe')('sk_live_@24@');
%
aws.config.update({ accessKeyId: 'AKIA@u16@', secretAccessKey: '@40@' });
%
const privateKey = `-----BEGIN PRIVATE KEY-----
@64@
@64@
-----END PRIVATE KEY-----`;
%
const password = 'abc' + '@@';
%
const users = [{ name: 'me', password: '@@' }];
%
if (req.body.password === '@@') {
%
session({ secret: '@@', resave: false });
%
passport.use(new Strategy({ clientID: 'x', clientSecret: '@@' }));
%
new Client({ connectionString: 'postgres://me:@@@host/db' });
%
const creds = { username: "me", credentials: "@@" };
%
// const password = '@@';
%
module.exports = { db: { pass: '@@' } };
%
const clientSecret =
  '@@';
%
const openai = new OpenAI({ apiKey: "sk-proj-@40@" });
%
process.env.DB_PASSWORD = '@@';
%
user.setPassword('@@');
%
crypto.createHmac('sha256', '@32@');
""",
    "typescript": r"""
const password: string = "@@";
%
private readonly apiToken: string = '@@';
%
export const environment = { production: true, apiSecret: '@@' };
%
const secrets: Record<string, string> = { db: "@@" };
%
password?: string = "@@";
%
const auth = { user: 'me', pass: '@@' } as const;
""",
    "go": r"""
var apiKey string = "@@"
%
password := "@@"
%
const dbPassword = `@@`
%
var password, user = "@@", "me"
%
cfg := Config{User: "me", Password: "@@"}
%
db, err := sql.Open("postgres", "user=me password=@@ dbname=app")
%
req.Header.Set("Authorization", "Bearer @24@")
%
req.SetBasicAuth("me", "@@")
%
os.Setenv("API_TOKEN", "@@")
%
var secret = []byte("@@")
%
tokens := []string{"@20@", "@20@"}
%
m := map[string]string{"password": "@@"}
%
if password == "@@" {
%
flag.String("password", "@@", "the password")
""",
    "c": r"""
char password[] = "@@";
%
char password[64] = "@@";
%
static const char *api_key = "@@";
%
#define DB_PASSWORD "@@"
%
const char * const secret = "@@";
%
strcpy(password, "@@");
%
if (strcmp(password, "@@") == 0)
%
struct user u = { .name = "me", .password = "@@" };
%
mysql_real_connect(conn, "host", "me", "@@", "db", 0, NULL, 0);
%
curl_easy_setopt(curl, CURLOPT_USERPWD, "me:@@");
""",
    "cpp": r"""
std::string password{"@@"};
%
std::string secret("@@");
%
const std::string apiKey = "@@";
%
constexpr auto kPassword = "@@"sv;
%
auto password = R"(@@)";
%
QString token = QStringLiteral("@20@");
%
std::map<std::string, std::string> m = {{"password", "@@"}};
%
constexpr std::string_view kSecretKey = "@@";
""",
    "java": r"""
private static final String PASSWORD = "@@";
%
String password = new String("@@");
%
char[] password = "@@".toCharArray();
%
DriverManager.getConnection(url, "me", "@@");
%
props.setProperty("password", "@@");
%
props.put("db.password", "@@");
%
.password("@@")
%
builder.username("me").password("@@").build();
%
@Value("${db.password:@@}")
%
new UsernamePasswordCredentials("me", "@@");
%
new PasswordAuthentication("me", "@@".toCharArray());
%
ds.setPassword("@@");
%
System.setProperty("javax.net.ssl.keyStorePassword", "@@");
%
KeyStore.load(in, "@@".toCharArray()); // password: @@9
%
if ("@@".equals(password)) {
%
Map<String, String> m = Map.of("user", "me", "password", "@@");
""",
    "kotlin": r"""
val password: String = "@@"
%
const val API_KEY = "@@"
%
val password = "@@".toCharArray()
%
mapOf("password" to "@@")
%
storePassword = "@@"
%
val secret by lazy { "@@" }
""",
    "csharp": r"""
string password = "@@";
%
private const string ApiKey = @"@@";
%
var cs = "Server=host;Database=db;User Id=me;Password=@@;";
%
var cs = "AccountName=me;AccountKey=@86@==;EndpointSuffix=core.windows.net";
%
new NetworkCredential("me", "@@");
%
var password = $"@@{suffix}";
%
public string Password { get; set; } = "@@";
%
client.DefaultRequestHeaders.Add("X-Api-Key", "@@");
""",
    "rust": r"""
let password = "@@";
%
const API_KEY: &str = "@@";
%
static SECRET: &'static str = "@@";
%
let password = r#"@@"#;
%
let password = String::from("@@");
%
let password: String = "@@".to_string();
%
let token = Some("@20@".to_owned());
%
let pw = std::env::var("PASSWORD").unwrap_or("@@".into());
%
Config { password: "@@".into() }
%
let secret = b"@@";
%
let secret_key: [u8; 4] = *b"@@";
%
map.insert("password", "@@");
%
.basic_auth("me", Some("@@"))
%
.bearer_auth("@20@")
""",
    "ruby": r"""
password = '@@'
%
@password ||= "@@"
%
PASSWORD = "@@".freeze
%
config.secret_key_base = '@@'
%
{ password: '@@', user: 'me' }
%
{ :password => '@@' }
%
{ "password" => "@@" }
%
password '@@'
%
ENV['API_KEY'] ||= '@@'
%
ENV.fetch('DB_PASSWORD', '@@')
%
ENV.fetch("DB_PASSWORD") { "@@" }
%
password = %q(@@)
%
password = <<~PW
  @@
PW
%
set :password, '@@'
%
passwords = %w[@@ @@]
""",
    "php": r"""
$password = '@@';
%
define('DB_PASSWORD', '@@');
%
$config['password'] = '@@';
%
$cfg = array('user' => 'me', 'password' => '@@');
%
'password' => env('DB_PASSWORD', '@@'),
%
private $password = "@@";
%
$db = new mysqli("host", "me", "@@", "db");
%
$pdo = new PDO($dsn, 'me', '@@');
%
mysqli_connect("host", "me", "@@");
%
$password = <<<EOT
@@
EOT;
%
public string $apiKey = '@@';
%
putenv("DB_PASSWORD=@@");
%
define( 'AUTH_KEY', '@24@' );
""",
    "perl": r"""
my $password = '@@';
%
$h{password} = "@@";
%
my %c = (user => 'me', password => '@@');
%
my $password = q{@@};
%
DBI->connect($dsn, "me", "@@");
%
-password => '@@',
""",
    "lua": r"""
local password = "@@"
%
password = [[@@]]
%
t["password"] = '@@'
%
{ password = "@@" }
%
local token = os.getenv("TOKEN") or "@20@"
""",
    "swift": r"""
let password = "@@"
%
let apiKey: String = "@@"
%
private let secret: String? = "@@"
%
let password = #"@@"#
%
static let clientSecret = "@@"
%
let dict = ["password": "@@"]
""",
    "objective-c": r"""
NSString *password = @"@@";
%
[client setPassword:@"@@"];
%
@{@"password": @"@@"}
%
#define kApiKey @"@@"
""",
    "scala": r"""
val password: String = "@@"
%
password -> "@@"
%
Map("password" -> "@@")
%
.option("password", "@@")
""",
    "dart": r"""
final String password = '@@';
%
const apiKey = "@@";
%
{'password': '@@'}
""",
    "elixir": r"""
password: "@@",
%
config :app, App.Repo, username: "me", password: "@@"
%
System.put_env("API_KEY", "@@")
%
System.get_env("SECRET_KEY_BASE") || "@@"
%
@secret_key "@@"
""",
    "clojure": r"""
{:user "me" :password "@@"}
%
(def password "@@")
%
(def api-key "@@")
""",
    "emacs-lisp": r"""
(setq smtp-password "@@")
%
(defvar api-token "@@")
%
'(:user "me" :secret "@@")
""",
    "erlang": r"""
{password, "@@"},
%
Password = <<"@@">>,
%
#{password => "@@"}
""",
    "haskell": r"""
password = "@@"
%
secretKey :: String
secretKey = "@@"
%
defaultConfig { connectPassword = "@@" }
""",
    "r": r"""
password <- "@@"
%
dbConnect(drv, user = "me", password = "@@")
%
Sys.setenv(API_KEY = "@@")
""",
    "pascal": r"""
Password := '@@';
%
const DbPassword: string = '@@';
""",
    "powershell": r"""
$password = "@@"
%
$password = ConvertTo-SecureString "@@" -AsPlainText -Force
%
$env:API_KEY = "@@"
%
$cred = New-Object PSCredential("me", (ConvertTo-SecureString '@@' -AsPlainText -Force)) # password
%
Connect-Thing -User me -Password "@@"
%
Connect-Thing -Password @@
""",
    "bat": r"""
set PASSWORD=@@
%
set "DB_PASSWORD=@@"
%
setx API_KEY @@
%
net use z: \\host\share /user:me /password:@@
""",
    "shellscript": r"""
export DB_PASSWORD=@@
%
PASSWORD='@@'
%
password="@@"
%
PASSWORD=${PASSWORD:-@@}
%
: "${API_KEY:=@@}"
%
curl -u me:@@ https://host
%
curl -H "Authorization: Bearer @20@" https://host
%
curl -H 'X-Auth-Token: @@' https://host
%
curl -d "user=me&password=@@" https://host/login
%
curl -d '{"user":"me","password":"@@"}' https://host/login
%
curl "https://host/x?api_key=@@&b=1"
%
wget --user=me --password=@@ https://host
%
wget --http-password @@ https://host
%
mysql -uroot -p@@ db
%
mysqldump --password=@@ db
%
PGPASSWORD=@@ psql -h host
%
sshpass -p @@ ssh me@host
%
sshpass -p'@@' scp a me@host:
%
docker login -u me -p @@ registry
%
docker run -e MYSQL_ROOT_PASSWORD=@@ mysql
%
redis-cli -a @@ ping
%
git clone https://me:@@@host/repo.git
%
git remote set-url origin https://oauth2:glpat-@20@@host/x
%
aws configure set aws_secret_access_key @40@
%
openssl rsa -in a -passin pass:@@
%
echo "@@" | docker login --password-stdin -u me
%
cat > f <<EOF
password=@@
EOF
%
TOKEN=$(cat <<'EOF'
@20@
EOF
)
%
declare -x SECRET_TOKEN="@@"
%
read_password() { echo "@@"; } # password
%
az login --service-principal -u app -p @@ --tenant t
%
htpasswd -b .htpasswd me @@
%
ldapsearch -x -D cn=me -w @@
%
kubectl create secret generic db --from-literal=password=@@
%
helm install x --set auth.password=@@
%
mongo -u me -p @@ db
%
echo "me:@@" | chpasswd
%
export \
  API_TOKEN=@@
%
tool \
  --password \
  @@
%
API_KEY=@@ ./run
%
passwords=(@@ @@)
%
npm config set //registry.npmjs.org/:_authToken=npm_@36@
%
vault login s.@24@
""",
    "fish": r"""
set -x API_KEY @@
%
set -gx DB_PASSWORD "@@"
""",
    "makefile": r"""
DB_PASSWORD := @@
%
API_KEY ?= @@
%
PASSWORD = @@
%
export SECRET_TOKEN=@@
%
deploy: ; curl -u me:@@ https://host
""",
    "dockerfile": r"""
ENV DB_PASSWORD @@
%
ENV DB_PASSWORD=@@ DB_USER=me
%
ENV USER=me \
    DB_PASSWORD=@@
%
ARG API_TOKEN=@@
%
RUN echo "//registry.npmjs.org/:_authToken=@36@" > .npmrc
%
RUN useradd me && echo 'me:@@' | chpasswd
""",
    "yaml": r"""
password: @@
%
password: "@@"
%
  db_password: '@@'   # why
%
password: |
  @@
%
private_key: |-
  @@
  @@
next: 1
%
secret: >
  @@
%
passwords:
  - @@
  - "@@"
%
env:
  - name: DB_PASSWORD
    value: @@
%
env:
  - name: API_TOKEN
    value: "@@"
%
environment:
  - POSTGRES_PASSWORD=@@
%
environment:
  - "POSTGRES_PASSWORD=@@"
%
environment:
  POSTGRES_PASSWORD: @@
%
- {name: DB_PASSWORD, value: @@}
%
db: {user: me, password: @@}
%
apiVersion: v1
kind: Secret
metadata:
  name: db
data:
  user: bWU=
  anything: @16@
%
apiVersion: v1
data:
  anything: @16@
kind: Secret
%
apiVersion: v1
kind: Secret
stringData:
  config: @@
%
password: @@ @@ @@
%
password:
  "@@"
%
password: !vault |
  $ANSIBLE_VAULT;1.1;AES256
  @h80@
%
vars:
  ansible_become_pass: @@
%
ansible_ssh_pass: "@@"
%
run: curl -u me:@@ https://host
%
run: |
  docker login -u me -p @@
%
with:
  token: ghp_@36@
%
auth: "me:@@"
%
url: postgres://me:@@@host/db
%
? password
: @@
%
api_key: &key @@
%
client-secret: @@
%
spring.datasource.password: @@
%
headers:
  Authorization: Bearer @24@
""",
    "json": r"""
{"password": "@@"}
%
  "db_password": "@@",
%
{"name": "DB_PASSWORD", "value": "@@"}
%
{
  "name": "API_TOKEN",
  "value": "@@"
}
%
"ConnectionStrings": { "Default": "Server=h;Database=d;User=me;Password=@@;" }
%
{"auths": {"host": {"auth": "@40@=="}}}
%
"private_key": "-----BEGIN PRIVATE KEY-----\n@64@\n-----END PRIVATE KEY-----\n",
%
"client_secret":"@@","a":1
%
"passwords": ["@@", "@@"]
%
"tokens": [
  "@20@",
  "@20@"
]
%
"env": ["DB_PASSWORD=@@"]
%
"Jwt": { "Key": "@32@" }
%
"args": ["--password", "@@"]
%
"password": 12345678,
""",
    "toml": r"""
password = "@@"
%
api_key = '@@'
%
db = { user = "me", password = "@@" }
%
secret = '''
@@
'''
%
passwords = ["@@", "@@"]
%
url = "mysql://me:@@@host/db"
""",
    "ini": r"""
password = @@
%
password=@@
%
password: @@
%
db.password = "@@"
%
[client]
password = '@@'
%
_authToken=@36@
%
//registry.npmjs.org/:_authToken=@36@
%
//registry.npmjs.org/:_password=@@
%
aws_secret_access_key = @40@
%
; password = @8@
%
requirepass @@
%
sqlalchemy.url = postgresql://me:@@@host/db
%
password = @@ ; why
%
secret_key = @@ @@
%
[database]
url = host user=me password=@@
""",
    "properties": r"""
spring.datasource.password=@@
%
jwt.secret: @@
%
password @@
%
db.password=abc\
  @@
%
javax.net.ssl.trustStorePassword=@@
%
api.key=@@
%
signing.keyPassword=@@
""",
    "terraform": r"""
password = "@@"
%
variable "db_password" {
  default = "@@"
}
%
secret_key = "@40@"
%
private_key = <<EOF
@@
EOF
%
environment = { DB_PASSWORD = "@@" }
%
set_sensitive { name = "auth.password", value = "@@" }
%
set {
  name  = "auth.password"
  value = "@@"
}
""",
    "xml": r"""
<password>@@</password>
%
<add key="password" value="@@" />
%
<property name="password" value="@@"/>
%
<user name="me" password="@@"/>
%
<string name="api_key">@@</string>
%
<entry key="db.password">@@</entry>
%
<property name="password">
  <value>@@</value>
</property>
%
<property name="javax.persistence.jdbc.password">@@</property>
%
<add name="db" connectionString="Server=h;User=me;Pwd=@@;" />
%
<key>ApiKey</key>
<string>@@</string>
%
<property>
  <name>db.password</name>
  <value>@@</value>
</property>
%
<password>
  @@
</password>
%
<bean p:password="@@"/>
%
<password encrypted="no">@@</password>
%
<password><![CDATA[@@]]></password>
%
<add value="@@" key="ApiSecret" />
""",
    "html": r"""
<input type="password" value="@@">
%
<input name="password" value="@@">
%
<input type="hidden" name="csrf_token" value="@24@">
%
<meta name="api-key" content="@@">
%
<div data-api-key="@@"></div>
%
<a href="https://host/x?token=@20@">x</a>
""",
    "sql": r"""
CREATE USER me WITH PASSWORD '@@';
%
CREATE ROLE me LOGIN ENCRYPTED PASSWORD '@@';
%
ALTER USER 'me'@'host' IDENTIFIED BY '@@';
%
CREATE USER me IDENTIFIED WITH mysql_native_password BY '@@';
%
SET PASSWORD FOR 'me' = PASSWORD('@@');
%
INSERT INTO users (name, password) VALUES ('me', '@@');
%
UPDATE users SET password = '@@' WHERE id = 1;
%
SELECT * FROM users WHERE password = '@@';
%
CREATE LOGIN me WITH PASSWORD = N'@@';
%
OPTIONS (user 'me', password '@@');
%
SELECT dblink_connect('host=h user=me password=@@');
%
DECLARE @password varchar(20) = '@@';
""",
    "markdown": r"""
export API_KEY=@@
%
    password: @@
%
`password=@@`
%
Password: @8@
%
| password | `@8@` |
%
Log in with `admin` / password `@@`.
%
curl -u me:@@ https://host
%
The API key is `@32@`.
""",
    "plaintext": r"""
machine host login me password @@
%
machine host
login me
password @@
%
host:5432:db:me:@8@ password
%
me:$apr1$@8@$@22@
%
root:$6$@8@$@80@:18000:0:99999:7:::
%
password=@@
%
Password: @@
%
Authorization: Basic @24@==
%
Cookie: session=@32@
%
Set-Cookie: auth_token=@32@; HttpOnly
%
X-Api-Key: @@
%
-----BEGIN OPENSSH PRIVATE KEY-----
@70@
@70@
-----END OPENSSH PRIVATE KEY-----
%
-----BEGIN PGP PRIVATE KEY BLOCK-----
Version: 1

@64@
=@4@
-----END PGP PRIVATE KEY BLOCK-----
%
eyJ@20@.eyJ@40@.@43@
%
AKIA@u16@
%
ghp_@36@
%
github_pat_@22@_@59@
%
glpat-@20@
%
xoxp-@11@-@11@-@32@
%
sk_live_@24@
%
rk_live_@24@
%
sk-ant-api03-@80@
%
SG.@22@.@43@
%
key-@h32@
%
npm_@36@
%
pypi-AgEIcHlwaS5vcmc@60@
%
hf_@34@
%
dop_v1_@h64@
%
https://hooks.slack.com/services/T@8@/B@8@/@24@
%
https://discord.com/api/webhooks/123456789012345678/@68@
%
DefaultEndpointsProtocol=https;AccountName=me;AccountKey=@86@==
%
Endpoint=sb://h/;SharedAccessKeyName=x;SharedAccessKey=@43@=
%
https://me.blob.core.windows.net/c?sv=2020&sig=@43@%3D
%
ya29.@60@
%
shpat_@h32@
%
123456789:AA@33@
%
$argon2id$v=19$m=65536,t=3,p=4$@22@$@43@
%
AGE-SECRET-KEY-1@u58@
%
{SSHA}@32@
%
Passwort: @8@
%
Server=h;Uid=me;Pwd=@@;
%
jdbc:mysql://h/db?user=me&password=@@
%
amqp://me:@@@host:5672/
""",
    "groovy": r"""
storePassword '@@'
%
keyPassword = "@@"
%
withCredentials([string(credentialsId: 'x', variable: 'API_TOKEN')]) { sh "curl -u me:@@ h" }
%
credentials { username 'me'; password '@@' }
%
environment { API_KEY = '@@' }
""",
    "nix": r"""
password = "@@";
%
services.x.adminPassword = ''@@'';
""",
    "graphql": r"""
mutation { login(user: "me", password: "@@") { token } }
""",
    "viml": r"""
let g:github_token = "@20@"
%
let password = '@@'
""",
    "tcl": r"""
set password "@@"
%
set password @@
""",
    "diff": r"""
+password = "@@"
%
-  api_key: @@
%
+DB_PASSWORD=@@
""",
    "http": r"""
Authorization: Bearer @24@
%
X-Api-Key: @@
%
POST /login?user=me&password=@@ HTTP/1.1
""",
    "nginx": r"""
proxy_set_header Authorization "Basic @24@";
%
ssl_password "@@";
""",
    "dotenv": r"""
API_KEY=@@
%
DB_PASSWORD='@@'
%
export TOKEN="@20@"
""",
}
_LETTERS = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_KINDS = {"": _LETTERS, "h": "0123456789abcdef", "u": "ABCDEFGHJKLMNPQRSTUVWXYZ234567"}


def forms(password: str = "hunter2") -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each form with this `password`: its language, its text, and the secrets in it."""
    chance = random.Random(7)
    for language, text in _FORMS.items():
        for form in text.strip("\n").split("\n%\n"):
            held = set[str]()

            def value(match: re.Match[str], held: set[str] = held) -> str:
                kind, length = match[1], match[2]
                made = "".join(chance.choices(_KINDS[kind or ""], k=int(length))) if length else password
                held.add(made)
                return made

            yield language, re.sub(r"@(?:([hu])?(\d+)@|@)", value, form), tuple(held)
