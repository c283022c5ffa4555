// Package plot draws measured curves as SVG files for docs/.
package plot

import (
	"fmt"
	"image/color"
	"os"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A Point is one measurement. Both coordinates are above zero.
type Point struct{ X, Y float64 }

// A Line is a named curve.
type Line struct {
	Name   string
	Points []Point // by ascending X
}

// A Panel is one diagram, with logarithmic axes.
type Panel struct {
	Title, X, Y string
	Lines       []Line
}

// Colours of Okabe and Ito, which most people can tell apart; the shapes tell the lines
// apart where they lie on each other.
var (
	colours = []color.RGBA{{213, 94, 0, 255}, {0, 114, 178, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255}, {0, 0, 0, 255}, {86, 180, 233, 255}}
	shapes  = []draw.GlyphDrawer{draw.TriangleGlyph{}, draw.SquareGlyph{}, draw.RingGlyph{}, draw.PlusGlyph{}, draw.CrossGlyph{}, draw.CircleGlyph{}, draw.PyramidGlyph{}}
)

const width, height = 14 * vg.Centimeter, 11 * vg.Centimeter // of a panel

// Write draws the panels side by side into the file at path, which it replaces.
func Write(path string, panels ...Panel) error {
	canvas := vgsvg.New(width*vg.Length(len(panels)), height)
	all := draw.New(canvas)
	all.SetColor(color.White) // or the text would be lost on the dark background of some browsers
	all.Fill(all.Rectangle.Path())
	for i, panel := range panels {
		p, err := panel.plot()
		if err != nil {
			return fmt.Errorf("plot: %s: %w", panel.Title, err)
		}
		p.Draw(draw.Crop(all, width*vg.Length(i)+10, -width*vg.Length(len(panels)-1-i)-10, 10, -10))
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := canvas.WriteTo(f); err != nil {
		return fmt.Errorf("plot: %s: %w", path, err)
	}
	return f.Close()
}

func (p Panel) plot() (*gonum.Plot, error) {
	g := gonum.New()
	g.Title.Text, g.X.Label.Text, g.Y.Label.Text = p.Title, p.X, p.Y
	g.X.Scale, g.Y.Scale = gonum.LogScale{}, gonum.LogScale{}
	g.X.Tick.Marker, g.Y.Tick.Marker = ticks{}, ticks{}
	g.Legend.Top, g.Legend.Left = true, true
	g.Add(plotter.NewGrid())
	for i, l := range p.Lines {
		points := make(plotter.XYs, len(l.Points))
		for j, at := range l.Points {
			points[j] = plotter.XY(at)
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Name, err)
		}
		line.Color, line.Width = colours[i%len(colours)], vg.Points(1.5)
		marks.Color, marks.Shape, marks.Radius = line.Color, shapes[i%len(shapes)], vg.Points(4)
		g.Add(line, marks)
		g.Legend.Add(l.Name, line, marks)
	}
	// Whole decades, and one more above, where the legend is.
	decades(&g.X.Min, &g.X.Max)
	decades(&g.Y.Min, &g.Y.Max)
	g.Y.Max *= 10
	return g, nil
}
