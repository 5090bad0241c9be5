package component

import (
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/token"
)

// depth is how much of a type a use depends on.
type depth uint8

const (
	// name: the identity of the type. A pointer that is copied, compared or
	// passed on doesn't depend on the layout of the pointee.
	name depth = iota
	// value: size, layout and attributes of the type and its members, but
	// not of pointees.
	value
	// pointee: value, and the value of the pointee (arithmetic, dereferences,
	// casts).
	pointee
)

// typeText is a parsed type string: its tokens, in which references replace the names of declared types.
type typeText struct {
	// literal holds the tokens; a name is replaced by "\x00".
	literal string
	names   []typeName
	// pointer is true if the type has a pointer or function in it, so that its
	// names aren't part of its own layout.
	pointer bool
	// doubt is the part of the type that the string hides: a variable bound, typeof.
	doubt string
}

type typeName struct {
	tag  bool   // struct, union or enum NAME
	name string // or the LINE:COLUMN of an unnamed one, with anon set
	anon bool
}

// typeWords are the words of a type string that name no declared type. Any other word has to be a declared
// type.
var typeWords = words.Set(`void char short int long float double signed unsigned _Bool bool _Complex const volatile restrict
	__restrict _Atomic __int128 _BitInt __float128 __attribute__ noreturn static`)

// languageWords are words that clang prints in types of some dialect of C or C++. A declared type with such a
// name could be mistaken.
var languageWords = words.Set(`bool true false nullptr nullptr_t noreturn auto typeof typeof_unqual decltype char8_t char16_t char32_t half cdecl stdcall fastcall
	thiscall vectorcall pascal regparm regcall ms_abi sysv_abi pcs vector pixel unnamed anonymous lambda address_space constexpr static_assert
	thread_local alignas alignof class template typename namespace operator this virtual explicit mutable friend export concept requires
	co_await co_return co_yield asm inline restrict vector_size ext_vector_type preserve_most preserve_all preserve_none aarch64_vector_pcs
	sampler_t event_t queue_t reserve_id_t image1d_t image2d_t image3d_t`)

// parseType parses a type string once: those of a dump repeat.
func (b *builder) parseType(s string) *typeText {
	t := b.types[s]
	if t == nil {
		t = parseTypeText(s)
		b.types[s] = t
	}
	return t
}

// bracketWords are the words that a constant array bound may have besides numbers.
var bracketWords = words.Set(`* static const restrict volatile`)

var typeofWords = words.Set(`typeof __typeof__ __typeof typeof_unqual __typeof_unqual__`)

func parseTypeText(s string) *typeText {
	t := &typeText{}
	if strings.HasPrefix(s, "<") { // <builtin fn type>, <overloaded function type>
		t.literal = s
		return t
	}
	var lit strings.Builder
	lex := token.New([]byte(s), 0)
	var toks []string
	var kinds []token.Kind
	for t := lex.Next(); t.Kind != token.EOF; t = lex.Next() {
		toks, kinds = append(toks, s[t.Off:t.End]), append(kinds, t.Kind)
	}
	at := func(i int) string {
		if i >= 0 && i < len(toks) {
			return toks[i]
		}
		return ""
	}
	tag := false
	for i := 0; i < len(toks); i++ {
		w := toks[i]
		switch {
		case w == "struct" || w == "union" || w == "enum":
			tag = true
			lit.WriteString(w + " ")
			continue
		case typeofWords[w]:
			t.doubt = "typeof"
			lit.WriteString(w + " ")
		case w == "(" && (at(i+1) == "unnamed" || at(i+1) == "anonymous"):
			// (unnamed struct at FILE:LINE:COLUMN)
			j := i
			for j < len(toks) && toks[j] != ")" {
				j++
			}
			if j >= i+6 {
				t.names = append(t.names, typeName{tag: true, anon: true, name: toks[j-3] + ":" + toks[j-1]})
				lit.WriteString("\x00")
			} else {
				t.doubt = "type " + s
			}
			i = j
		case kinds[i] == token.Ident && at(i+1) == "::":
			// Where an anonymous one is a member: that says no more than its place.
			i++
			continue
		case kinds[i] == token.Ident && (tag || !typeWords[w]):
			t.names = append(t.names, typeName{tag: tag, name: w})
			lit.WriteString("\x00")
		case w == "[":
			j := i + 1
			for j < len(toks) && (kinds[j] == token.Number || bracketWords[toks[j]]) {
				j++
			}
			if at(j) != "]" {
				t.doubt = "array with a variable bound"
			}
			for ; i < j && i < len(toks); i++ {
				lit.WriteString(toks[i] + " ")
			}
			i--
		default:
			if w == "*" || w == "^" {
				t.pointer = true
			}
			lit.WriteString(w + " ")
		}
		tag = false
	}
	t.literal = lit.String()
	return t
}
