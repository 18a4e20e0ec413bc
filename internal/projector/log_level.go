package projector

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// level is how severe a log line is.
type level int

// The levels, the most severe first.
const (
	levelFatal level = iota
	levelError
	levelWarn
	levelInfo
	levelDebug
	levelTrace
	levelOther // the line tells none
	levelsEnd
)

func (l level) String() string {
	return [levelsEnd]string{"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "OTHER"}[l]
}

// levelNamed gives the level of a word in upper case.
func levelNamed(word string) (level, bool) {
	switch word {
	case "FATAL", "CRITICAL", "CRIT", "EMERG", "EMERGENCY", "ALERT", "PANIC":
		return levelFatal, true
	case "ERROR", "ERR", "SEVERE":
		return levelError, true
	case "WARN", "WARNING":
		return levelWarn, true
	case "INFO", "NOTICE", "INFORMATION":
		return levelInfo, true
	case "DEBUG":
		return levelDebug, true
	case "TRACE", "VERBOSE":
		return levelTrace, true
	}
	return levelOther, false
}

// levelSpan is how far into a line its level is looked for, in bytes. Further
// on stands what the line is about.
const levelSpan = 160

// levelOf reads the level of a text line: the letter of klog (E0102 15:04:05 …),
// or the first word in its first 160 bytes that names a level and either is
// written in upper case (ERROR, WARN -), or stands in brackets ([error], <warn>),
// behind a key such as level= or severity:, or alone before a colon (error: …,
// sshd[7]: error: …). Any other word in running text is none: "closed without
// error" is no error.
func levelOf(line string) level {
	if l, ok := levelOfKlog(line); ok {
		return l
	}
	line, _ = cut(line, levelSpan)
	for at := 0; at < len(line); {
		if !isLetter(line[at]) {
			at++
			continue
		}
		end := at + 1
		for end < len(line) && isLetter(line[end]) {
			end++
		}
		word := line[at:end]
		if l, ok := levelNamed(strings.ToUpper(word)); ok {
			apart := (at == 0 || !isWordByte(line[at-1])) && (end == len(line) || !isWordByte(line[end]))
			if apart && (word == strings.ToUpper(word) || inBrackets(line, at, end) || beforeColon(line, at, end) || behindKey(line[:at])) {
				return l
			}
		}
		at = end
	}
	return levelOther
}

func isLetter(b byte) bool { return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' }

// isWordByte reports whether the byte makes a longer word of the letters beside
// it, as in ERROR_CODE, 4ERR or ÉERR.
func isWordByte(b byte) bool { return isLetter(b) || '0' <= b && b <= '9' || b == '_' || b >= 0x80 }

func inBrackets(line string, at, end int) bool {
	if at == 0 || end == len(line) {
		return false
	}
	open, closed := line[at-1], line[end]
	return (open == '[' || open == ':') && closed == ']' || open == '<' && closed == '>' || open == '(' && closed == ')'
}

// beforeColon reports whether the word and a colon begin the line, or what it
// says behind a colon.
func beforeColon(line string, at, end int) bool {
	return end < len(line) && line[end] == ':' && (at == 0 || strings.HasSuffix(line[:at], ": "))
}

// behindKey reports whether the text ends in a key that levels stand behind.
func behindKey(before string) bool {
	before = strings.TrimRight(before, `"' `)
	if before == "" || (before[len(before)-1] != '=' && before[len(before)-1] != ':') {
		return false
	}
	before = strings.ToLower(strings.TrimRight(before[:len(before)-1], `"' `))
	for _, key := range [...]string{"level", "lvl", "severity", "levelname", "loglevel"} {
		if rest, ok := strings.CutSuffix(before, key); ok && (rest == "" || !isWordByte(rest[len(rest)-1])) {
			return true
		}
	}
	return false
}

// levelOfKlog reads lines such as "E0102 15:04:05.000000 …".
func levelOfKlog(line string) (level, bool) {
	if len(line) < 6 || line[5] != ' ' {
		return levelOther, false
	}
	for _, digit := range []byte(line[1:5]) {
		if digit < '0' || digit > '9' {
			return levelOther, false
		}
	}
	switch line[0] {
	case 'F':
		return levelFatal, true
	case 'E':
		return levelError, true
	case 'W':
		return levelWarn, true
	case 'I':
		return levelInfo, true
	}
	return levelOther, false
}

// levelOfObject reads the level of a structured line: a word, or a number as
// pino and bunyan write it (10, 20 … 60).
func levelOfObject(fields jsontext.Value) level {
	found := levelOther
	for name, value := range members(fields) {
		if !isLevelField(name) || found != levelOther {
			continue
		}
		if text, ok := textOf(value); ok {
			found, _ = levelNamed(strings.ToUpper(strings.TrimSpace(text)))
			continue
		}
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && n%10 == 0 && 10 <= n && n <= 60 {
			found = [...]level{levelTrace, levelDebug, levelInfo, levelWarn, levelError, levelFatal}[n/10-1]
		}
	}
	return found
}

func isLevelField(name string) bool {
	switch name {
	case "level", "severity", "lvl", "levelname", "log.level", "severity_text", "severityText", "@level", "@l":
		return true
	}
	return false
}

func isMessageField(name string) bool {
	switch name {
	case "message", "msg", "text", "log", "body", "@message", "@m", "event":
		return true
	}
	return false
}

func isTimeField(name string) bool {
	switch name {
	case "time", "timestamp", "ts", "@timestamp", "@t", "date":
		return true
	}
	return false
}

// partsOfObject gives the time and the message of a structured line of that
// level, and counts what else it has. One without a message is shown as the JSON
// that it is.
func partsOfObject(fields jsontext.Value, of level, left *leftOut) (when, message string) {
	var others int64
	levelled, told, timed := of == levelOther, false, false
	for name, value := range members(fields) {
		text, isText := textOf(value)
		switch {
		case isLevelField(name) && !levelled:
			levelled = true
		case isMessageField(name) && isText && !told:
			message, told = text, true
		case isTimeField(name) && !timed && (isText || value.Kind() == '0'):
			when, timed = text, true
			if !isText {
				when = string(value)
			}
		default:
			others++
		}
	}
	if !told {
		whole, _ := jsontext.AppendFormat(nil, fields, jsontext.PreserveRawStrings(true)) // fails on what is no JSON
		return "", string(whole)
	}
	left[leftPaths] += others
	return when, message
}
