package projector_test

import (
	"testing"

	"runledger/internal/projector"
)

func TestMCPResultsShowWhatIsMeantForTheAgent(t *testing.T) {
	checkProjections(t, []projection{
		{name: "a text", config: mcp(), raw: `{"content":[{"type":"text","text":"72°F"}],"isError":false}`,
			want: `{"content":[{"type":"text","text":"72°F"}]}`, evidence: found},
		{name: "an image and a sound are told by type and size", config: mcp(),
			raw:  `{"content":[{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"},{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}]}`,
			want: `{"content":[{"type":"image","mimeType":"image/png","bytes":8},{"type":"audio","mimeType":"audio/wav","bytes":4}],"left_out":{"binary":2}}`, evidence: found},
		{name: "a link, and embedded resources", config: mcp(),
			raw: `{"content":[{"type":"resource_link","uri":"file:///a.rs","name":"a.rs","description":"d","mimeType":"text/x-rust","size":12},` +
				`{"type":"resource","resource":{"uri":"file:///b","mimeType":"text/plain","text":"hi","_meta":{"x":1}}},{"type":"resource","resource":{"uri":"file:///c","blob":"AAEC"}}]}`,
			want: `{"content":[{"type":"resource_link","uri":"file:///a.rs","name":"a.rs","description":"d","mimeType":"text/x-rust","size":12},` +
				`{"type":"resource","uri":"file:///b","mimeType":"text/plain","text":"hi"},{"type":"resource","uri":"file:///c","bytes":3}],"left_out":{"paths":1,"binary":1}}`, evidence: found},
		{name: "structured content, and its text once more", config: mcp(),
			raw:  `{"content":[{"type":"text","text":"{\"temperature\": 22.50, \"unit\": \"C\"}"}],"structuredContent":{"unit":"C","temperature":22.5}}`,
			want: `{"structuredContent":{"unit":"C","temperature":22.5},"content":[],"left_out":{"content":1}}`, evidence: found},
		{name: "structured content, and another text", config: mcp(), raw: `{"content":[{"type":"text","text":"22 degrees"}],"structuredContent":{"t":22}}`,
			want: `{"structuredContent":{"t":22},"content":[{"type":"text","text":"22 degrees"}]}`, evidence: found},
		{name: "structured content alone", config: mcp(), raw: `{"structuredContent":{"t":22}}`, want: `{"structuredContent":{"t":22},"content":[]}`, evidence: found},
		{name: "what keep hides stands in no text", config: mcp(func(c *projector.MCPConfig) { c.Keep = []projector.Keep{{Path: "user.id", As: "user_id"}} }),
			raw:  `{"content":[{"type":"text","text":"Ann, born 1990"}],"structuredContent":{"user":{"id":7,"born":1990}}}`,
			want: `{"structuredContent":{"user":{"user_id":7}},"content":[],"left_out":{"paths":1,"content":1}}`, evidence: found},
		{name: "a block for the user alone", config: mcp(),
			raw:  `{"content":[{"type":"text","text":"a","annotations":{"audience":["user"]}},{"type":"text","text":"b","annotations":{"audience":["user","assistant"],"priority":1}},{"type":"text","text":"c","annotations":{"priority":1}}]}`,
			want: `{"content":[{"type":"text","text":"b"},{"type":"text","text":"c"}],"left_out":{"paths":2,"content":1}}`, evidence: found},
		{name: "a block of a later revision", config: mcp(), raw: `{"content":[{"type":"video","data":"AAEC"},{"type":"text","text":"a"}],"_meta":{"progress":1}}`,
			want: `{"content":[{"type":"text","text":"a"}],"left_out":{"paths":1,"content":1}}`, evidence: found},
	})
}

func TestAnEmptyMCPResultIsNoEvidence(t *testing.T) {
	checkProjections(t, []projection{
		{name: "no blocks", config: mcp(), raw: `{"content":[]}`, want: `{"content":[]}`, evidence: nothing},
		{name: "a blank text", config: mcp(), raw: `{"content":[{"type":"text","text":" "}]}`, want: `{"content":[{"type":"text","text":" "}]}`, evidence: nothing},
		{name: "a text that is an empty list", config: mcp(), raw: `{"content":[{"type":"text","text":"[]"}]}`, want: `{"content":[{"type":"text","text":"[]"}]}`, evidence: nothing},
		{name: "empty structured content", config: mcp(func(c *projector.MCPConfig) { c.Keep = projector.KeepPaths("a") }), raw: `{"content":[],"structuredContent":{}}`,
			want: `{"structuredContent":{},"content":[]}`, evidence: nothing},
		{name: "structured content that is null", config: mcp(), raw: `{"content":[],"structuredContent":null}`, want: `{"content":[]}`, evidence: nothing},
		{name: "an image is something", config: mcp(), raw: `{"content":[{"type":"image","data":"","mimeType":"image/png"}]}`,
			want: `{"content":[{"type":"image","mimeType":"image/png","bytes":0}],"left_out":{"binary":1}}`, evidence: found},
		{name: "a list that the server wraps, by an expression", config: mcp(func(c *projector.MCPConfig) { c.Evidence = "size(result.structuredContent.result) > 0" }),
			raw: `{"content":[],"structuredContent":{"result":[]}}`, want: `{"structuredContent":{"result":[]},"content":[]}`, evidence: nothing},
	})
}

func TestAnMCPErrorIsNoEvidenceAndNoLackOfIt(t *testing.T) {
	const failed = "raw response: want an MCP result without isError; the tool reported a failure, which is no evidence and no lack of it"
	checkProjections(t, []projection{
		{name: "an unknown tool", config: mcp(), raw: `{"content":[{"type":"text","text":"Unknown tool: get_wether"}],"isError":true}`, wantErr: failed},
		{name: "bad arguments", config: mcp(), raw: `{"isError":true,"content":[{"type":"text","text":"MCP error -32602: Invalid arguments for tool x"}]}`, wantErr: failed},
		{name: "a failure of the tool", config: mcp(), raw: `{"content":[{"type":"text","text":"API rate limit exceeded"}],"isError":true}`, wantErr: failed},
		{name: "an error with structured content", config: mcp(), raw: `{"content":[],"structuredContent":{"rows":[1]},"isError":true}`, wantErr: failed},
		{name: "an error without content", config: mcp(), raw: `{"isError":true}`, wantErr: failed},
		{name: "an error that an expression would take", config: mcp(func(c *projector.MCPConfig) { c.Evidence = "true" }), raw: `{"content":[],"isError":true}`, wantErr: failed},
		{name: "isError as a text", config: mcp(), raw: `{"content":[],"isError":"true"}`, wantErr: "raw response: want true or false as isError, got another value"},
		{name: "isError null", config: mcp(), raw: `{"content":[],"isError":null}`, wantErr: "raw response: want true or false as isError, got another value"},
		{name: "an error of JSON-RPC", config: mcp(), raw: `{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"Unknown tool"}}`,
			wantErr: "raw response: want an MCP tool result with content or structuredContent, got neither"},
		{name: "a text", config: mcp(), raw: `"ok"`, wantErr: "raw response: want an MCP tool result, an object with content, got another value"},
		{name: "content that is a text", config: mcp(), raw: `{"content":"ok"}`, wantErr: "raw response: want a list as content, got another value"},
		{name: "structured content that is a list", config: mcp(), raw: `{"content":[],"structuredContent":[1]}`, wantErr: "raw response: want an object as structuredContent, got another value"},
		{name: "a block that is a text", config: mcp(), raw: `{"content":["ok"]}`, wantErr: "raw response: want objects as blocks of content, got another value"},
		{name: "a text block without text", config: mcp(), raw: `{"content":[{"type":"text"}]}`, wantErr: "raw response: want a text in a block of text, got none"},
		{name: "a text block with a number", config: mcp(), raw: `{"content":[{"type":"text","text":7}]}`, wantErr: "raw response: want a string as text, got another value"},
		{name: "an image of a number", config: mcp(), raw: `{"content":[{"type":"image","data":7}]}`, wantErr: "raw response: want bytes as a base64 string, got another value"},
		{name: "no structured content to keep of", config: mcp(func(c *projector.MCPConfig) { c.Keep = projector.KeepPaths("a") }), raw: `{"content":[{"type":"text","text":"{\"a\":1}"}]}`,
			wantErr: "raw response: want structuredContent, of which the policy keeps paths, got none"},
	})
}

func TestMCPResultsAreCappedAndEveryCutIsCounted(t *testing.T) {
	most := func(items, bytes, text int64) func(*projector.MCPConfig) {
		return func(c *projector.MCPConfig) { c.MaxItems, c.MaxBytes, c.MaxString = items, bytes, text }
	}
	const three = `{"content":[{"type":"text","text":"aa"},{"type":"text","text":"bb"},{"type":"text","text":"cc"}]}`
	const all = `{"content":[{"type":"text","text":"aa"},{"type":"text","text":"bb"},{"type":"text","text":"cc"}]}`    // 97 bytes
	const one = `{"content":[{"type":"text","text":"aa"}],"left_out":{"content":2}}`                                   // 66
	const both = `{"structuredContent":{"l":[1,2,3]},"content":[{"type":"text","text":"aaaaaaaaaaaaaaaaaaaaaaaaaa"}]}` // 99
	const alone = `{"structuredContent":{"l":[1,2,3]},"content":[],"left_out":{"content":1}}`                          // 73
	const short = `{"structuredContent":{"l":[1]},"content":[],"left_out":{"items":2,"content":1}}`                    // 79
	structured := `{"structuredContent":{"l":[1,2,3]},"content":[{"type":"text","text":"aaaaaaaaaaaaaaaaaaaaaaaaaa"}]}`
	checkProjections(t, []projection{
		{name: "blocks of the limit", config: mcp(most(3, 999, 9)), raw: three, want: all, evidence: found},
		{name: "a block more", config: mcp(most(2, 999, 9)), raw: three,
			want: `{"content":[{"type":"text","text":"aa"},{"type":"text","text":"bb"}],"left_out":{"content":1}}`, evidence: found},
		{name: "exactly the bytes", config: mcp(most(9, 97, 9)), raw: three, want: all, evidence: found},
		{name: "a byte less", config: mcp(most(9, 96, 9)), raw: three, want: `{"content":[{"type":"text","text":"aa"},{"type":"text","text":"bb"}],"left_out":{"content":1}}`, evidence: found},
		{name: "one block exactly", config: mcp(most(9, 66, 9)), raw: three, want: one, evidence: found},
		{name: "not one", config: mcp(most(9, 65, 9)), raw: three, wantErr: "result: want at most max_bytes 65, got more with as little in it as may be"},
		{name: "texts cut within a character", config: mcp(most(9, 999, 3)), raw: `{"content":[{"type":"text","text":"ab😀"},{"type":"text","text":"aé"}]}`,
			want: `{"content":[{"type":"text","text":"ab"},{"type":"text","text":"aé"}],"left_out":{"strings":1}}`, evidence: found},
		{name: "structured content and a block exactly", config: mcp(most(9, 99, 99)), raw: structured, want: both, evidence: found},
		{name: "the block goes first", config: mcp(most(9, 98, 99)), raw: structured, want: alone, evidence: found},
		{name: "structured content without the block exactly", config: mcp(most(9, 73, 99)), raw: structured, want: alone, evidence: found},
		{name: "structured content that does not fit", config: mcp(most(9, 72, 99)), raw: structured, wantErr: "structuredContent: result: want at most max_bytes, got more even with one item in every list"},
		{name: "lists in structured content are cut", config: mcp(most(1, 79, 99)), raw: structured, want: short, evidence: found},
	})
}
