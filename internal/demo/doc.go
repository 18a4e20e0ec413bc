// Package demo plays recorded agent runs through the whole system and shows
// what came of them: an agent and an executor made of transcripts ([Play]), a
// few runs as timelines ([FetchTimeline]) and the figures ([WriteSummary]).
//
// Nothing here decides anything, and no figure comes from what the player
// believes: they are counted from the streams by the audit package.
package demo
