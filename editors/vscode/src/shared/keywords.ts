/**
 * Words of languages, which are defined nowhere: nobody is asked for them. editors/neovim/lua/fastcoder/keywords.lua has
 * the same; a word that is a keyword in one language and a name in another may be missing of the names that are asked for.
 */

const WORDS = `
and as assert async await bool boolean break case catch char class const continue crate def default defer del delete do
double elif else elsif end enum except export extends extern False false final finally float fn for foreach from func
function global goto if impl implements import in include instanceof int interface is lambda let local long loop match
mod move mut namespace new nil None nonlocal not null nullptr number or override package pass private protected pub
public raise readonly ref repeat require return Self self short signed sizeof static string struct super switch template
then this throw throws trait True true try type typedef typename typeof undefined union unless unsafe unsigned until use
using var virtual void volatile when where while with yield
`

export const KEYWORDS: ReadonlySet<string> = new Set(WORDS.trim().split(/\s+/))
