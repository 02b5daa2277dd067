package userspace

import "slices"

// pageBits: a page holds 64 chains.
const (
	pageBits = 6
	pageSize = 1 << pageBits
)

// buckets is a hash table that never changes: a change makes another, which shares all but one page with it. A reader needs no lock, and a change
// costs one page and the list of pages. Collisions are chained, in an order that the owner gives.
type buckets[T any] struct {
	pages []*[pageSize]*chain[T] // a power of two
	count int
	hash  func(*T) uint64
}

type chain[T any] struct {
	value T
	next  *chain[T]
}

func newBuckets[T any](hash func(*T) uint64) buckets[T] {
	return buckets[T]{pages: []*[pageSize]*chain[T]{new([pageSize]*chain[T])}, hash: hash}
}

// at is the chain of a hash.
func (b *buckets[T]) at(hash uint64) *chain[T] {
	page, slot := b.place(hash)
	return b.pages[page][slot]
}

func (b *buckets[T]) place(hash uint64) (page, slot uint64) {
	return hash >> pageBits & uint64(len(b.pages)-1), hash & (pageSize - 1)
}

// with holds v too, in its chain where order puts it.
func (b buckets[T]) with(v T, order func(a, b *T) int) buckets[T] {
	if b.count >= len(b.pages)*pageSize/2 {
		b = b.doubled()
	}
	return b.edited(b.hash(&v), func(list []T) []T {
		at, _ := slices.BinarySearchFunc(list, v, func(a, v T) int { return order(&a, &v) })
		return slices.Insert(list, at, v)
	})
}

// without holds none of the values of the chain of hash that are meant.
func (b buckets[T]) without(hash uint64, meant func(*T) bool) buckets[T] {
	return b.edited(hash, func(list []T) []T {
		return slices.DeleteFunc(list, func(v T) bool { return meant(&v) })
	})
}

// edited has another chain for hash.
func (b buckets[T]) edited(hash uint64, edit func([]T) []T) buckets[T] {
	var list []T
	for c := b.at(hash); c != nil; c = c.next {
		list = append(list, c.value)
	}
	b.count -= len(list)
	list = edit(list)
	b.count += len(list)
	var head *chain[T]
	for _, v := range slices.Backward(list) {
		head = &chain[T]{v, head}
	}
	n, slot := b.place(hash)
	page := *b.pages[n]
	page[slot] = head
	b.pages = slices.Clone(b.pages)
	b.pages[n] = &page
	return b
}

// doubled has twice the room. Each chain splits into two, which keep its order.
func (b buckets[T]) doubled() buckets[T] {
	old := b.pages
	b.pages = make([]*[pageSize]*chain[T], 2*len(old))
	for n := range b.pages {
		b.pages[n] = new([pageSize]*chain[T])
	}
	for _, page := range old {
		for _, c := range page {
			for ; c != nil; c = c.next {
				n, slot := b.place(b.hash(&c.value))
				end := &b.pages[n][slot]
				for *end != nil {
					end = &(*end).next
				}
				*end = &chain[T]{value: c.value}
			}
		}
	}
	return b
}
