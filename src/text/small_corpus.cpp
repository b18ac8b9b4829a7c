// The training corpus of the small tokenizer: sentences about photos, in fifteen scripts.
#include "text/small_tokenizer.hpp"

namespace fovea::text {
namespace {

constexpr std::string_view kSmallCorpus = R"(
this is a photo of a cat. this is a photo of a dog. this is a photo of a bird on a branch.
a photo of a red bicycle in the snow. a photo of two people on a red bicycle. a blue car parked in the street at night.
a black and white photo of an old house near the sea. the house has a red door and two small windows.
a woman is reading a book on a bench in the park. a man is walking with a small brown dog along the beach.
children are playing football in the garden behind the school. a group of friends is sitting around a wooden table.
a bowl of fresh fruit: apples, bananas, oranges, grapes and a lemon. a cup of coffee and a slice of chocolate cake on a plate.
a white cat sleeping on a grey sofa. a close-up of a cat's green eyes. three kittens in a basket, looking at the camera.
a large brown horse running across a green field under a cloudy sky. sheep and cows on a hill in the morning light.
a train is arriving at the station; people are waiting on the platform. an aeroplane flies over the mountains at sunset.
the city at night, seen from above: bright lights, tall buildings, a bridge over the river. a boat on a calm lake.
a painting of flowers in a vase. a drawing of a tree, made with a pencil. a map of the world on the wall of a classroom.
a screenshot of a web page with text and buttons. a receipt from a shop, 12.50 in total, dated 2024-03-17.
a birthday party with balloons, candles and presents. a wedding, the bride in a long white dress. a concert, 5,000 people.
a doctor looks at an x-ray image of a hand. a satellite image of a forest, a river and some fields after heavy rain.
yellow leaves in autumn, deep snow in winter, cherry blossom in spring, a swimming pool in summer.
someone is holding a phone and taking a picture of the food before eating it. the kitchen is clean and the light is warm.
ein foto von einer katze auf dem dach. der hund läuft schnell über die grüne wiese. zwei äpfel und eine schöne tasse.
une photo d'un chat noir sur la fenêtre. la forêt est très belle après la pluie. un garçon mange du pain à la plage.
una foto de un perro pequeño en la calle. la niña está en el jardín con su mamá. mañana habrá más nubes en el cielo.
uma foto de um cão na praia. o avião está no céu e as crianças estão à sombra. o pão e o café da manhã.
zdjęcie psa w ogrodzie. mała łódź płynie po jeziorze. çocuk bahçede oynuyor, küçük kedi güneşte uyuyor, ışık güzel.
kočka sedí na střeše, pes běží přes louku. en bild på en röd båt, två små hus vid sjön. con mèo đang ngủ trên ghế.
фото кошки на окне. большая собака бежит по снегу. красный велосипед стоит у стены дома. дети играют в саду.
старый дом у моря, ночь, свет в окне. женщина читает книгу в парке. жовтий автобус їде вулицею міста, сонце світить.
μια φωτογραφία μιας γάτας στο παράθυρο. ο σκύλος τρέχει στον κήπο. το κόκκινο ποδήλατο είναι δίπλα στο σπίτι.
το καράβι στη θάλασσα και τα παιδιά στην παραλία. ο ουρανός είναι γαλάζιος.
תמונה של חתול על החלון. הכלב רץ בגן ליד הבית. אופניים אדומים בשלג. הילדים משחקים על שפת הים.
صورة قطة على النافذة. الكلب يجري في الحديقة قرب البيت. دراجة حمراء في الثلج. الأطفال يلعبون على الشاطئ.
عکس یک گربه کنار پنجره. سگ در باغ می‌دود. آسمان آبی و دریا آرام است.
खिड़की पर एक बिल्ली की तस्वीर. कुत्ता बगीचे में दौड़ रहा है. लाल साइकिल घर के पास खड़ी है. बच्चे खेल रहे हैं.
জানালায় একটি বিড়ালের ছবি. কুকুর বাগানে দৌড়াচ্ছে. লাল সাইকেল ঘরের পাশে আছে.
ஜன்னலில் ஒரு பூனையின் படம். நாய் தோட்டத்தில் ஓடுகிறது. சிவப்பு மிதிவண்டி வீட்டின் அருகில் உள்ளது.
รูปถ่ายของแมวที่หน้าต่าง สุนัขวิ่งในสวน จักรยานสีแดงอยู่ข้างบ้าน เด็กเล่นอยู่ที่ชายหาด
კატის ფოტო ფანჯარასთან. ძაღლი ბაღში დარბის. წითელი ველოსიპედი სახლთან დგას.
կատվի լուսանկար պատուհանի մոտ. շունը վազում է այգում. կարմիր հեծանիվը տան մոտ է.
창문에 있는 고양이 사진. 개가 정원에서 달린다. 빨간 자전거가 집 옆에 있다. 아이들이 바닷가에서 논다.
窓のそばにいる猫の写真。犬が庭を走っている。赤い自転車が家の前にある。子供たちが海で遊んでいる。
カメラで撮った写真をコンピュータで見る。テーブルの上のコーヒーとケーキ。
窗边一只猫的照片。狗在花园里跑。红色的自行车在房子旁边。孩子们在海边玩。夜晚的城市，桥和河。
一張貓的照片。山上有雪，湖上有船。
በመስኮት ላይ ያለ ድመት ፎቶ. ውሻው በአትክልት ውስጥ ይሮጣል. ቀይ ብስክሌት ከቤቱ አጠገብ ነው.
😀 😂 ❤️ 👍 🐱 🐶 🚲 🌊 🎂 📷
)";

}  // namespace

std::string_view small_corpus() {
  return kSmallCorpus;
}

}  // namespace fovea::text
